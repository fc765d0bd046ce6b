"""The rules, one file each: a pure function of the evidence, with its cases of silence."""
