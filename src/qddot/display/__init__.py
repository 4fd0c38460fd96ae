"""How results are shown: as text, HTML and LaTeX (`text`), and as plots (`plots`)."""
