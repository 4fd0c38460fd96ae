"""Is a description right? Health, invariants, audit, and the same file in MuJoCo."""

import qddot
from qddot.verify.audit import audit
from qddot.verify.compare import compare

robot = qddot.load("ur5e")
for finding in robot.health:
    print(f"{finding.severity}: {finding.subject}: {finding.message}")

result = audit("ur5e")
print(f"audit: {result.count('error')} errors, {result.count('warning')} warnings")

report = compare("ur5e", engines=["mujoco"])
for comparison in report.comparisons:
    print(comparison.verdict)
