"""What readers share: lines, values, parts, and the builder of sessions."""
