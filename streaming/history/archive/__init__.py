"""The archive: states of a long past as tables in an open format, and the past out of them."""
