"""Completion scripts, made from the parser, so that they never say less than `--help`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple


class Option(NamedTuple):
    word: str
    says: str
    values: tuple[str, ...]
    takes_value: bool


class Command(NamedTuple):
    name: str
    says: str
    options: tuple[Option, ...]
    words: tuple[str, ...]
    """What a positional argument may be, where it is one of a few."""


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """What `eval` or `source` takes in that shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](tuple(_commands(parser)), tuple(_options(parser)))


def _commands(parser: argparse.ArgumentParser) -> Iterator[Command]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            says = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, one in action.choices.items():
                words = tuple(str(word) for plain in one._actions if not plain.option_strings for word in plain.choices or ())
                if any(plain.dest == "session" and not plain.option_strings for plain in one._actions):
                    words = ("last",)
                yield Command(name, says.get(name, ""), tuple(_options(one)), words)


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        takes_value = action.nargs != 0
        for word in action.option_strings:
            yield Option(word, (action.help or "").replace("%(default)s", str(action.default)), tuple(action.choices or ()), takes_value)


def _bash(commands: tuple[Command, ...], options: tuple[Option, ...]) -> str:
    cases = "".join(
        f"    {command.name}) words={_quoted(' '.join([*(option.word for option in command.options), *command.words]))} ;;\n"
        for command in commands
    )
    values = sorted({(option.word, option.values) for command in commands for option in command.options if option.values})
    value_cases = "".join(f"    {word}) words={_quoted(' '.join(choices))} ;;\n" for word, choices in values)
    files = sorted({option.word for command in commands for option in command.options if option.takes_value and not option.values})
    top = " ".join([*(command.name for command in commands), *(option.word for option in options)])
    return f"""_palaver() {{
  local word previous command words index
  word="${{COMP_WORDS[COMP_CWORD]}}"
  previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  command=""
  for (( index = 1; index < COMP_CWORD; index++ )); do
    case " {" ".join(command.name for command in commands)} " in
      *" ${{COMP_WORDS[index]}} "*) command="${{COMP_WORDS[index]}}"; break ;;
    esac
  done
  case "$previous" in
{value_cases}    {"|".join(files)}) COMPREPLY=($(compgen -f -- "$word")); return ;;
    *) words="" ;;
  esac
  if [ -z "$words" ]; then case "$command" in
{cases}    *) words={_quoted(top)} ;;
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o filenames -F _palaver palaver
"""


def _zsh(commands: tuple[Command, ...], options: tuple[Option, ...]) -> str:
    listed = "\n".join(f"    {_quoted(f'{command.name}:{command.says}')}" for command in commands)
    cases = "\n".join(
        f"    {command.name}) _arguments -S {' '.join([*map(_zsh_option, command.options), *_zsh_words(command)])} ;;"
        for command in commands
    )
    return f"""#compdef palaver
_palaver() {{
  local -a commands
  commands=(
{listed}
  )
  local line state
  _arguments -C {" ".join(map(_zsh_option, options))} '1:command:->command' '*::argument:->argument'
  case "$state" in
    command) _describe command commands ;;
    argument) case "$line[1]" in
{cases}
    esac ;;
  esac
}}
(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit; }}
compdef _palaver palaver
"""


def _zsh_option(option: Option) -> str:
    says = option.says.translate(str.maketrans("[]:", "(),"))
    value = f":value:({' '.join(option.values)})" if option.values else ":value:_files" if option.takes_value else ""
    return _quoted(f"{option.word}[{says}]{value}")


def _zsh_words(command: Command) -> list[str]:
    return [_quoted(f"1:word:({' '.join(command.words)})")] if command.words else []


def _fish(commands: tuple[Command, ...], options: tuple[Option, ...]) -> str:
    lines = ["complete -c palaver -f"]
    lines += [_fish_option("__fish_use_subcommand", option) for option in options]
    for command in commands:
        lines.append(f"complete -c palaver -n __fish_use_subcommand -a {command.name} -d {_quoted(command.says)}")
        when = f"'__fish_seen_subcommand_from {command.name}'"
        lines += [_fish_option(when, option) for option in command.options]
        if command.words:
            lines.append(f"complete -c palaver -n {when} -a {_quoted(' '.join(command.words))}")
    return "\n".join(lines) + "\n"


def _fish_option(when: str, option: Option) -> str:
    word = f"-l {option.word[2:]}" if option.word.startswith("--") else f"-s {option.word[1:]}"
    value = f" -x -a {_quoted(' '.join(option.values))}" if option.values else " -r -F" if option.takes_value else ""
    return f"complete -c palaver -n {when} {word}{value} -d {_quoted(option.says)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
