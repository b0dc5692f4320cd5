#include "client/manual/completion.h"

#include <algorithm>
#include <functional>

namespace shoal::client {
namespace {

using Command = CommandDescription;
using Option = OptionDescription;

// `path`: " swarm init", of the program itself "".
void ForEachCommand(const Command& command, const std::string& path,
                    const std::function<void(const Command&, const std::string&)>& visit) {
  visit(command, path);
  for (const Command& below : command.commands) {
    ForEachCommand(below, path + " " + below.name, visit);
  }
}

std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text)
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

// What fish reads between quotes.
std::string FishQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + "'";
}

std::string Joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// The first sentence is enough in a list.
std::string Short(const std::string& help) {
  return help.substr(0, std::min({help.find(": "), help.find("; "), help.find(". ")}));
}

std::vector<std::string> Paths(const Command& program) {
  std::vector<std::string> paths;
  ForEachCommand(program, "", [&paths](const Command&, const std::string& path) {
    if (!path.empty()) paths.push_back(path);
  });
  return paths;
}

std::vector<std::string> FlagsOf(const Command& command) {
  std::vector<std::string> flags;
  for (const Option& option : command.options) {
    if (!option.positional) flags.insert(flags.end(), option.names.begin(), option.names.end());
  }
  return flags;
}

const Option* PositionalOf(const Command& command) {
  for (const Option& option : command.options) {
    if (option.positional) return &option;
  }
  return nullptr;
}

std::vector<std::string> NamesOf(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const Command& command : commands) names.push_back(command.name);
  return names;
}

// Words that an option's value, or a positional argument, is one of.
std::vector<std::string> WordsOf(const Option& option, const Command& program,
                                 const std::vector<std::string>& settings) {
  if (option.value == kVerbValue) return NamesOf(program.commands);
  if (option.value == kSettingValue) {
    std::vector<std::string> words;
    words.reserve(settings.size());
    for (const std::string& setting : settings) words.push_back(setting + "=");
    return words;
  }
  return option.choices;
}

// The patterns of a shell's case for an option of a command: "' join --config'|' join -c'".
std::string CasePattern(const std::string& path, const Option& option) {
  std::vector<std::string> patterns;
  for (const std::string& name : option.names) patterns.push_back(Quoted(path + " " + name));
  return Joined(patterns, "|");
}

// ---- bash -------------------------------------------------------------------------------------

std::string BashValue(const Option& option, const Command& program,
                      const std::vector<std::string>& settings) {
  if (option.value == kFileValue) return "_shoal_paths -f";
  if (option.value == kFolderValue) return "_shoal_paths -d";
  const std::vector<std::string> words = WordsOf(option, program, settings);
  if (words.empty()) return ":";
  const std::string reply =
      "COMPREPLY=($(compgen -W " + Quoted(Joined(words, " ")) + " -- \"$cur\"))";
  return option.value == kSettingValue ? "compopt -o nospace; " + reply : reply;
}

std::string Bash(const Command& program, const std::vector<std::string>& settings) {
  std::vector<std::string> paths;
  for (const std::string& path : Paths(program)) paths.push_back(Quoted(path));
  std::string values, commands;
  ForEachCommand(program, "", [&](const Command& command, const std::string& path) {
    for (const Option& option : command.options) {
      if (option.positional || option.value.empty()) continue;
      values += "    " + CasePattern(path, option) + ") " + BashValue(option, program, settings) +
                "; return ;;\n";
    }
    const Option* const positional = PositionalOf(command);
    commands += "    " + Quoted(path) + ") flags=" + Quoted(Joined(FlagsOf(command), " ")) +
                " words=" + Quoted(Joined(NamesOf(command.commands), " ")) + ";";
    if (positional != nullptr) {
      commands +=
          " [[ $cur == -* ]] || { " + BashValue(*positional, program, settings) + "; return; };";
    }
    commands += " ;;\n";
  });
  return "# Completion of shoal for bash, made by `shoal completion bash`.\n"
         "_shoal_paths() {\n"
         "  compopt -o filenames\n"
         "  local IFS=$'\\n'\n"
         "  COMPREPLY=($(compgen \"$1\" -- \"$cur\"))\n"
         "}\n\n"
         "_shoal() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at= i flags= "
         "words=\n"
         "  COMPREPLY=()\n"
         "  if [[ $cur == '=' ]]; then\n"
         "    cur=\n"
         "  elif [[ $prev == '=' ]]; then\n"
         "    prev=${COMP_WORDS[COMP_CWORD-2]}\n"
         "  fi\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    case \"$at ${COMP_WORDS[i]}\" in\n"
         "      " +
         Joined(paths, "|") +
         ") at+=\" ${COMP_WORDS[i]}\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$at $prev\" in\n" +
         values +
         "  esac\n"
         "  case $at in\n" +
         commands +
         "  esac\n"
         "  [[ $cur == -* ]] && words=$flags\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "}\n"
         "complete -F _shoal shoal\n";
}

// ---- zsh --------------------------------------------------------------------------------------

// "name:what it is", as _describe takes it.
std::string ZshItem(const std::string& name, const std::string& about) {
  std::string escaped;
  for (const char letter : name)
    escaped += letter == ':' ? std::string("\\:") : std::string(1, letter);
  return Quoted(escaped + ":" + Short(about));
}

std::string ZshValue(const Option& option, const Command& program,
                     const std::vector<std::string>& settings) {
  if (option.value == kFileValue) return "_files";
  if (option.value == kFolderValue) return "_files -/";
  const std::vector<std::string> words = WordsOf(option, program, settings);
  if (words.empty()) return "_message " + Quoted(Short(option.help));
  return (option.value == kSettingValue ? "compadd -S '' -- " : "compadd -- ") + Joined(words, " ");
}

std::string Zsh(const Command& program, const std::vector<std::string>& settings) {
  std::vector<std::string> paths;
  for (const std::string& path : Paths(program)) paths.push_back(Quoted(path));
  std::string values, commands;
  ForEachCommand(program, "", [&](const Command& command, const std::string& path) {
    for (const Option& option : command.options) {
      if (option.positional || option.value.empty()) continue;
      values += "    (" + CasePattern(path, option) + ") " + ZshValue(option, program, settings) +
                "; return ;;\n";
    }
    commands += "    (" + Quoted(path) + ")\n      flags=(";
    for (const Option& option : command.options) {
      if (option.positional) continue;
      for (const std::string& name : option.names) commands += ZshItem(name, option.help) + " ";
    }
    commands += ")\n      verbs=(";
    for (const Command& below : command.commands)
      commands += ZshItem(below.name, below.about) + " ";
    commands += ")\n";
    if (const Option* const positional = PositionalOf(command); positional != nullptr) {
      commands += "      [[ $PREFIX == -* ]] || { " + ZshValue(*positional, program, settings) +
                  "; return; }\n";
    }
    commands += "      ;;\n";
  });
  return "#compdef shoal\n"
         "# Completion of shoal for zsh, made by `shoal completion zsh`.\n"
         "_shoal() {\n"
         "  local at= i\n"
         "  local -a flags verbs\n"
         "  for ((i = 2; i < CURRENT; ++i)); do\n"
         "    case \"$at ${words[i]}\" in\n"
         "      (" +
         Joined(paths, "|") +
         ") at+=\" ${words[i]}\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$at ${words[CURRENT-1]}\" in\n" +
         values +
         "  esac\n"
         "  case $at in\n" +
         commands +
         "  esac\n"
         "  if [[ $PREFIX == -* ]]; then\n"
         "    _describe -o option flags\n"
         "  elif (( ${#verbs} )); then\n"
         "    _describe verb verbs\n"
         "  fi\n"
         "}\n"
         "if [[ ${funcstack[1]} == _shoal ]]; then _shoal \"$@\"; else compdef _shoal shoal; fi\n";
}

// ---- fish -------------------------------------------------------------------------------------

std::string FishValue(const Option& option, const Command& program,
                      const std::vector<std::string>& settings) {
  if (option.value == kFileValue) return " -F";
  if (option.value == kFolderValue) return " -a '(__fish_complete_directories)'";
  const std::vector<std::string> words = WordsOf(option, program, settings);
  return words.empty() ? "" : " -a " + FishQuoted(Joined(words, " "));
}

std::string Fish(const Command& program, const std::vector<std::string>& settings) {
  std::vector<std::string> paths;
  for (const std::string& path : Paths(program)) paths.push_back(FishQuoted(path));
  std::string lines;
  ForEachCommand(program, "", [&](const Command& command, const std::string& path) {
    const std::string here =
        "complete -c shoal -n " + FishQuoted("test (__shoal_at) = \"shoal" + path + "\"");
    for (const Command& below : command.commands) {
      lines += here + " -a " + below.name + " -d " + FishQuoted(Short(below.about)) + "\n";
    }
    for (const Option& option : command.options) {
      lines += here;
      for (const std::string& name :
           option.positional ? std::vector<std::string>() : option.names) {
        lines += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.positional && !option.value.empty()) {
        lines += option.value == kFileValue ? " -r" : " -x";
      }
      lines +=
          FishValue(option, program, settings) + " -d " + FishQuoted(Short(option.help)) + "\n";
    }
  });
  return "# Completion of shoal for fish, made by `shoal completion fish`.\n"
         "function __shoal_at\n"
         "  set -l at ''\n"
         "  set -l known " +
         Joined(paths, " ") +
         "\n"
         "  for word in (commandline -opc)[2..]\n"
         "    contains -- \"$at $word\" $known; and set at \"$at $word\"\n"
         "  end\n"
         "  echo \"shoal$at\"\n"
         "end\n"
         "complete -c shoal -f\n" +
         lines;
}

}  // namespace

std::string CompletionScript(const std::string& shell, const CommandDescription& program,
                             const std::vector<std::string>& settings) {
  if (shell == "zsh") return Zsh(program, settings);
  if (shell == "fish") return Fish(program, settings);
  return Bash(program, settings);
}

}  // namespace shoal::client
