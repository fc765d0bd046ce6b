"""Every message between a training process, the server and the browser; ``docs/wire.md``."""
