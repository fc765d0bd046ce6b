"""Reading and writing files safely, and formats that several packages read."""
