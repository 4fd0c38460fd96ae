# %% [markdown]
# # What is wrong with this file?
# We break a good file on purpose, as exporters do, and let the audit find it.

# %%
import tempfile
from pathlib import Path

import qddot
from qddot.verify.audit import audit
from qddot.verify.compare import compare

good = qddot.loaders.locate_source("ur5e")
text = good.read_text("utf-8")
start = text.index('<link name="forearm_link"')
mass = text.index('<mass value="', start) + len('<mass value="')
end = text.index('"', mass)
broken = Path(tempfile.mkdtemp()) / "broken.urdf"
_ = broken.write_text(text[:mass] + str(1000 * float(text[mass:end])) + text[end:], "utf-8")
print("mass of the forearm:", text[mass:end], "kg in the good file, in grams in the broken one")

# %%
result = audit(broken)
for finding in result.findings[:3]:
    print(f"{finding.severity}: {finding.subject}: {finding.hypothesis}: {finding.message}\n")

# %% [markdown]
# Two files of one robot, and the first cause of the difference:

# %%
report = compare(good, broken)
for comparison in report.comparisons:
    cause = comparison.first_cause
    print(comparison.verdict, cause and f"{cause.name}: {cause.differences[0].message}")
