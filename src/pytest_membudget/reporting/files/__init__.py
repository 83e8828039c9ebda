"""report.json, and the files that are made of it: Markdown, HTML, JUnit, annotations, metrics."""
