"""One folder per framework: the only code, beside the training toolkit, that imports one."""
