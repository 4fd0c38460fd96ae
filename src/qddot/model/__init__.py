"""The frozen model of a robot: joints, links, assembly, and edits that give another model."""
