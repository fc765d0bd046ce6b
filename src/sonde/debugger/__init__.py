"""The rank side of the debugger: watchpoints, control, answers to questions."""
