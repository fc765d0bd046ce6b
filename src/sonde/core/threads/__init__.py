"""What threads wait for each other with, and the room of the stack of one."""
