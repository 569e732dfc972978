"""What both of OpenAI's protocols share."""
