"""How results are shown: text, HTML and LaTeX (`text`), pages (`markup`), plots (`plots`)."""
