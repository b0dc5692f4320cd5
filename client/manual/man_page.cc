#include "client/manual/man_page.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace shoal::client {
namespace {

using Command = CommandDescription;
using Option = OptionDescription;

// A text that troff prints as it is, also at the beginning of a line.
std::string Plain(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\') {
      escaped += "\\e";
    } else if (letter == '-') {
      escaped += "\\-";
    } else {
      escaped += letter;
    }
  }
  const bool request = escaped.starts_with(".") || escaped.starts_with("'");
  return (request ? "\\&" : "") + escaped;
}

// A codec's spec is longer than a line.
std::string Breakable(std::string_view text) {
  std::string escaped;
  for (const char letter : Plain(text)) {
    escaped += letter;
    if (letter == ',' || letter == '/') escaped += "\\:";
  }
  return escaped;
}

std::string BoldFace(std::string_view text) { return "\\fB" + Plain(text) + "\\fR"; }
std::string Italic(std::string_view text) { return "\\fI" + Plain(text) + "\\fR"; }

// An argument of a macro.
std::string Argument(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : Plain(text))
    quoted += letter == '"' ? std::string("\\(dq") : std::string(1, letter);
  return quoted + "\"";
}

std::string SynopsisOf(const Command& command, const std::string& called) {
  std::string text = BoldFace(called);
  for (const Option& option : command.options) {
    if (option.positional || !option.required) continue;
    text += " " + BoldFace(option.names.back()) + " " + Italic(option.value);
  }
  text += " [" + Italic("options") + "]";
  for (const Option& option : command.options) {
    if (option.positional) text += " " + Italic(option.names.front()) + (option.many ? " ..." : "");
  }
  if (!command.commands.empty()) text += " " + Italic("verb");
  return text + "\n";
}

std::string OptionsOf(const Command& command) {
  std::string text;
  for (const Option& option : command.options) {
    text += ".TP\n";
    std::string names;
    for (const std::string& name : option.names) {
      names += (names.empty() ? "" : ", ") + (option.positional ? Italic(name) : BoldFace(name));
    }
    if (!option.value.empty() && !option.positional) names += " " + Italic(option.value);
    text += names + "\n" + Plain(option.help);
    if (!option.choices.empty()) {
      text += " (one of";
      for (const std::string& choice : option.choices) text += " " + Plain(choice);
      text += ")";
    }
    if (!option.preset.empty()) text += "; if not given: " + Breakable(option.preset);
    if (!option.environment.empty()) text += "; also $" + Plain(option.environment);
    text += "\n";
  }
  return text;
}

// Lines that begin with two spaces are examples; the others are paragraphs.
std::string NotesOf(const Command& command) {
  std::string text;
  bool in_example = false;
  std::string_view rest = command.notes;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const bool example = line.starts_with("  ");
    if (example != in_example) text += example ? ".RS 2\n.nf\n" : ".fi\n.RE\n";
    in_example = example;
    if (line.empty()) continue;
    text += example ? Plain(line.substr(2)) + "\n" : ".PP\n" + Plain(line) + "\n";
  }
  return text + (in_example ? ".fi\n.RE\n" : "");
}

std::string VerbsOf(const Command& command, const std::string& called) {
  std::string text;
  for (const Command& verb : command.commands) {
    const std::string name = called + " " + verb.name;
    text +=
        ".SS " + Argument(name) + "\n" + Plain(verb.about) + ".\n.PP\n" + SynopsisOf(verb, name);
    text += OptionsOf(verb) + NotesOf(verb) + VerbsOf(verb, name);
  }
  return text;
}

}  // namespace

std::string ManPage(const CommandDescription& command, const std::vector<std::string>& path,
                    const std::string& version) {
  std::string called, name, title;
  for (const std::string& word : path) {
    called += (called.empty() ? "" : " ") + word;
    name += (name.empty() ? "" : "-") + word;
  }
  for (const char letter : name)
    title += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  std::string about = command.about;
  if (about.starts_with(called + ": ")) about = about.substr(called.size() + 2);
  std::string text = ".TH " + Argument(title) + " 1 \"\" " + Argument("shoal " + version) +
                     " \"User Commands\"\n.ad l\n.nh\n.SH NAME\n" + Plain(name) + " \\- " +
                     Plain(about) + "\n.SH SYNOPSIS\n" + SynopsisOf(command, called);
  if (!command.options.empty()) text += ".SH OPTIONS\n" + OptionsOf(command);
  if (!command.commands.empty()) text += ".SH VERBS\n" + VerbsOf(command, called);
  if (!command.notes.empty()) text += ".SH NOTES\n" + NotesOf(command);
  return text + ".SH SEE ALSO\n" + BoldFace("shoal") + "(1), " + BoldFace("shoald") + "(1), " +
         BoldFace("shoal-scheduler") + "(1), " + BoldFace("shoal-relay") + "(1), " +
         BoldFace("shoal-run") + "(1)\n";
}

}  // namespace shoal::client
