"""Run the laboratory and write docs/laboratory.md: `python docs/laboratory.py [experiment …]`.

Results are kept in docs/laboratory.json, so that one experiment can be run again by itself, also
on one plant only: `hold:own`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from qddot.control import laboratory

FOLDER = Path(__file__).parent
PAGE, KEPT = FOLDER / "laboratory.md", FOLDER / "laboratory.json"
MARK = "<!-- figures: written by docs/laboratory.py -->"
PANEL = {"own": 400, "mujoco": 20}
PLOTS = ("trace", "compliance")
MASSES = (1.0, 3.0, 5.0, 10.0)
"""Masses (kg) of the ball of the test with a sliding ball."""


def measure(name: str, kind: str) -> dict:
    """Run an experiment on a plant, draw it if the page shows it, and give its figures."""
    if name == "panel":
        return laboratory.panel(kind, PANEL[kind]).to_json()
    if name == "sliding":
        return {"label": "ok", "rows": measure_sliding(kind)}
    result = laboratory.EXPERIMENTS[name](kind)
    if name in PLOTS and kind == "own":
        laboratory.plot_result(result, FOLDER / f"laboratory-{name}.png")
    return result.to_json()


def measure_sliding(kind: str) -> list[dict]:
    """Share of time (%) that a sliding ball is out of contact, by its mass and the table."""
    found = []
    for tuned in (True,) if kind == "own" else (True, False):
        for words, stiffness in (("table of 50 kN/m", 5e4), ("table of 1 MN/m", 1e6)):
            around = laboratory.Surroundings(friction=0.6, stiffness=stiffness, tuned_contact=tuned)
            lost = [100.0 * laboratory.slide_ball(kind, around, mass=m).lost for m in MASSES]
            found.append({"tuned_contact": tuned, "table": words, "lost": lost})
    return found


def sliding_rows(kept: dict) -> list[str]:
    """The table of the test with a sliding ball."""
    lines = ["| time out of contact, ball of | " + " | ".join(f"{m:g} kg" for m in MASSES) + " |"]
    lines.append("| --- |" + " --- |" * len(MASSES))
    for kind in ("own", "mujoco"):
        for row in kept[f"sliding {kind}"]["rows"]:
            contact = "explicit pair" if row["tuned_contact"] else "default contact"
            plant = "our plant" if kind == "own" else f"MuJoCo, {contact}"
            cells = " | ".join(f"{x:.0f} %" for x in row["lost"])
            lines.append(f"| {plant}, {row['table']} | {cells} |")
    return [*lines, ""]


def rows(name: str, kept: dict) -> list[str]:
    """The table of an experiment, a column a plant."""
    found = [kept[f"{name} {kind}"] for kind in ("own", "mujoco") if f"{name} {kind}" in kept]
    plants = ["our plant" if r["plant"] == "own" else "MuJoCo" for r in found]
    lines = [f"| {name} | must be | {' | '.join(plants)} | published |"]
    lines.append("| --- | --- |" + " --- |" * (len(found) + 1))
    for k, first in enumerate(found[0]["measures"]):
        there = [r["measures"][k : k + 1] for r in found]
        bound = "" if first["bound"] is None else f"{first['sense']} {first['bound']:g}"
        values = [f"{m[0]['value']:.4g} {m[0]['unit']}".strip() if m else "" for m in there]
        cells = [first["name"].strip(), bound, *values, first["published"] or ""]
        lines.append("| " + " | ".join(cells) + " |")
    notes = list(dict.fromkeys(note for r in found for note in r["notes"]))
    return [*lines, "", *(f"    {note}" for note in notes), *([""] if notes else [])]


def main(names: list[str]) -> None:
    """Run the experiments named, all if none is, and write the page."""
    kept: dict = {}
    every = ["sliding", *laboratory.EXPERIMENTS, "panel"]
    for asked in names or every:
        name, _, one = asked.partition(":")
        for kind in (one,) if one else ("own", "mujoco"):
            found = measure(name, kind)
            kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
            kept[f"{name} {kind}"] = found
            KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(name, kind, kept[f"{name} {kind}"]["label"], flush=True)
    write_page()


def write_page() -> None:
    """Write the page from the results that are kept."""
    every = [*laboratory.EXPERIMENTS, "panel"]
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    head = PAGE.read_text(encoding="utf-8").split(MARK)[0]
    tables = [line for name in every if f"{name} own" in kept for line in ["", *rows(name, kept)]]
    if "sliding own" in kept and "sliding mujoco" in kept:
        tables = ["", *sliding_rows(kept), *tables]
    PAGE.write_text(head + MARK + "\n".join([*tables]).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
