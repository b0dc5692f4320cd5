#include "tests/bench/bench_command.h"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "common/exit_code.h"

namespace shoal::bench_command {
namespace {

constexpr std::size_t kHelpColumn = 20;

std::string Line(const std::string& left, const std::string& help) {
  const std::size_t space = left.size() < kHelpColumn ? kHelpColumn - left.size() : 1;
  return "  " + left + std::string(space, ' ') + help + "\n";
}

// Lines of at most 100 columns.
std::string Wrapped(const std::string& text) {
  constexpr std::size_t kColumns = 100;
  std::string wrapped, line, word;
  for (std::istringstream words(text); words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      wrapped += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return wrapped + line + "\n";
}

}  // namespace

Command::Command(const About& about) : about_(about) {
  Flag("--json", "print one JSON object on standard output, and nothing else", &json_);
}

void Command::Flag(const char* name, const char* help, bool* to) {
  options_.push_back({name, "", help, [to](const std::string&) { return *to = true; }});
}

void Command::Text(const char* name, const char* value, const char* help, std::string* to) {
  options_.push_back({name, value, help, [to](const std::string& text) {
                        *to = text;
                        return true;
                      }});
}

void Command::Count(const char* name, const char* value, const char* help, std::uint64_t* to) {
  options_.push_back({name, value, help, [to](const std::string& text) {
                        const char* const last = text.data() + text.size();
                        const auto [end, error] = std::from_chars(text.data(), last, *to);
                        return error == std::errc() && end == last && *to > 0;
                      }});
}

void Command::PassOn(const char* prefix, std::vector<std::string>* to) {
  passed_on_ = prefix;
  passed_ = to;
}

std::string Command::Help() const {
  std::string text = std::string("usage: ./x bench ") + about_.name + " [OPTIONS]\n\n" +
                     Wrapped(about_.measures) + "\n";
  for (const Option& option : options_) {
    text += Line(option.name + (option.value.empty() ? "" : " " + option.value), option.help);
  }
  text += Line("--help", "print this");
  if (passed_ != nullptr) text += Line(passed_on_ + "...", "options of Google Benchmark");
  return text + "\n" + Wrapped(std::string("Needs: ") + about_.needs) +
         Wrapped(std::string("Takes: ") + about_.takes) +
         Wrapped(std::string("Exit code: 0 ") + about_.bounds +
                 "; 1 otherwise, or where the bench fails; 2 the command line is wrong.");
}

void Command::WrongUsage(const std::string& what) const {
  std::fprintf(stderr, "%s: %s; see ./x bench %s --help\n", about_.name, what.c_str(), about_.name);
  std::exit(static_cast<int>(ExitCode::kUsage));
}

void Command::Fail(const std::string& what) const {
  std::fprintf(stderr, "%s: %s\n", about_.name, what.c_str());
  std::exit(static_cast<int>(ExitCode::kFailure));
}

void Command::Parse(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      std::fputs(Help().c_str(), stdout);
      std::exit(static_cast<int>(ExitCode::kOk));
    }
    if (passed_ != nullptr && argument.rfind(passed_on_, 0) == 0) {
      passed_->push_back(argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    const Option* found = nullptr;
    for (const Option& option : options_) {
      if (option.name == argument.substr(0, equals)) found = &option;
    }
    if (found == nullptr) WrongUsage("there is no option '" + argument + "'");
    std::string value;
    if (equals != std::string::npos) value = argument.substr(equals + 1);
    if (found->value.empty() && equals != std::string::npos) {
      WrongUsage(found->name + " takes no value");
    }
    if (!found->value.empty() && equals == std::string::npos) {
      if (i + 1 == argc) WrongUsage(found->name + " needs " + found->value);
      value = argv[++i];
    }
    if (!found->take(value)) WrongUsage(found->name + " does not take '" + value + "'");
  }
}

int ExitCodeOf(bool held) { return static_cast<int>(held ? ExitCode::kOk : ExitCode::kFailure); }

}  // namespace shoal::bench_command
