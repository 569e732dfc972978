"""Messages of agent frameworks, a format per framework. Most of them need the framework's extra."""
