// What the command lines of all benches in this folder have in common.
//
// --json prints one JSON object on standard output, schemaVersion first, and nothing else there.
// --help says what the bench measures, what it needs, how long it takes and what its exit code
// says. The code is 0 if its bounds held or it has none, 1 if a bound was missed or the bench
// failed, 2 if the command line was wrong, as in common/exit_code.h. tests/bench/bench_command.py
// is the same in Python.

#ifndef SHOAL_TESTS_BENCH_BENCH_COMMAND_H_
#define SHOAL_TESTS_BENCH_BENCH_COMMAND_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace shoal::bench_command {

// Sentences of --help.
struct About {
  const char* name;  // as in ./x bench NAME
  const char* measures;
  const char* needs;
  const char* takes;
  const char* bounds;  // what exit code 0 says
};

class Command {
 public:
  explicit Command(const About& about);

  void Flag(const char* name, const char* help, bool* to);
  void Text(const char* name, const char* value, const char* help, std::string* to);
  // Whole and above 0.
  void Count(const char* name, const char* value, const char* help, std::uint64_t* to);
  // Takes over what begins with `prefix`, as it is; such options are another library's.
  void PassOn(const char* prefix, std::vector<std::string>* to);

  // Ends the program after --help, and where the command line is wrong.
  void Parse(int argc, char** argv);
  bool json() const { return json_; }
  // One line on standard error and exit code 2.
  [[noreturn]] void WrongUsage(const std::string& what) const;
  // One line on standard error and exit code 1.
  [[noreturn]] void Fail(const std::string& what) const;

 private:
  struct Option {
    std::string name, value, help;  // value: "TEXT"; empty: a flag
    std::function<bool(const std::string&)> take;
  };
  std::string Help() const;

  const About about_;
  std::vector<Option> options_;
  std::string passed_on_;  // prefix
  std::vector<std::string>* passed_ = nullptr;
  bool json_ = false;
};

// Of main: whether all bounds held.
int ExitCodeOf(bool held);

}  // namespace shoal::bench_command

#endif  // SHOAL_TESTS_BENCH_BENCH_COMMAND_H_
