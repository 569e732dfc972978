"""What tool calls do, judged by their names and arguments: search, read, change. Pure."""

from wane.tools.calls import class_of_call, judge_call
from wane.tools.command_lines import judge_command
from wane.tools.judgement import Activity, Judgement

__all__ = ["Activity", "Judgement", "class_of_call", "judge_call", "judge_command"]
