"""What crosses a boundary, as data: commands come in, events are what happened."""
