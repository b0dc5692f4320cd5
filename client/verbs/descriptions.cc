#include "client/verbs/descriptions.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "client/base/process.h"
#include "client/base/programs.h"
#include "client/verbs/verb.h"

namespace shoal::client {
namespace {

constexpr std::size_t kDescriptionBytesMax = 1 << 20;

// The place of a verb within those of `program`; null if there is none.
CommandDescription* Find(CommandDescription* program, std::string_view path) {
  CommandDescription* at = program;
  while (at != nullptr && !path.empty()) {
    const std::size_t space = std::min(path.find(' '), path.size());
    const auto found =
        std::ranges::find(at->commands, path.substr(0, space), &CommandDescription::name);
    at = found == at->commands.end() ? nullptr : &*found;
    path.remove_prefix(std::min(space + 1, path.size()));
  }
  return at;
}

}  // namespace

Result<CommandDescription> DescribeProgram(const std::vector<std::string>& command) {
  SHOAL_ASSIGN_OR_RETURN(const std::string program, FindProgram(command.front()));
  std::vector<std::string> line = command;
  line.front() = program;
  line.emplace_back(kDescribeFlag);
  SHOAL_ASSIGN_OR_RETURN(const Captured ran, RunAndCapture(line, kDescriptionBytesMax));
  if (ran.exit_code != 0) return Internal(command.front() + " does not describe itself");
  return ParseDescription(ran.output);
}

CommandDescription DescribeVerbs(const CLI::App& app) {
  CommandDescription all = Describe(app);
  std::map<std::string, Result<CommandDescription>> programs;
  for (const Verb& verb : AllVerbs()) {
    CommandDescription* const place = Find(&all, verb.path);
    if (verb.program == nullptr || place == nullptr) continue;
    const auto [program, fresh] = programs.try_emplace(verb.program, Internal("not asked yet"));
    if (fresh) program->second = DescribeProgram({verb.program});
    if (!program->second.ok()) continue;
    const CommandDescription* found = Find(&*program->second, place->name);
    Result<CommandDescription> own = Internal("not asked");
    if (found == nullptr) {
      own = DescribeProgram({verb.program, place->name});
      if (!own.ok()) continue;
      found = &*own;
    }
    place->options = found->options;
    place->notes = found->notes;
  }
  return all;
}

}  // namespace shoal::client
