"""A report as Markdown, as a page of HTML with pictures, and as plain data."""
