#include "common/command_line/description.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/nesting.h"

namespace shoal {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDepthMax = 8;  // of commands within commands

// CLI11 appends what a check demands to the name of a value: "TEXT:{fp32,bf16}", "N:INT in [1 -
// 8]".
void ReadTypeName(const std::string& type, OptionDescription* option) {
  const std::size_t colon = type.find(':');
  const std::size_t brace = type.find('{');
  option->value = brace == std::string::npos && type == "HOST:PORT" ? type : type.substr(0, colon);
  if (brace == std::string::npos) return;
  const std::size_t end = type.find('}', brace);
  if (end == std::string::npos) return;
  std::string word;
  for (const char letter : type.substr(brace + 1, end - brace - 1) + ",") {
    if (letter == ',') {
      option->choices.push_back(std::exchange(word, ""));
    } else {
      word += letter;
    }
  }
}

OptionDescription DescribeOption(const CLI::Option& option) {
  OptionDescription made;
  made.positional = option.get_positional() && !option.nonpositional();
  if (made.positional) {
    made.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_snames()) made.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) made.names.push_back("--" + name);
  }
  if (option.get_type_size_max() > 0) ReadTypeName(option.get_type_name(), &made);
  made.help = option.get_description();
  made.preset = option.get_default_str();
  made.environment = option.get_envname();
  made.required = option.get_required();
  made.many = option.get_expected_max() > 1;
  return made;
}

Json ToJson(const CommandDescription& command) {
  Json options = Json::array(), commands = Json::array();
  for (const OptionDescription& option : command.options) {
    options.push_back({{"names", option.names},
                       {"value", option.value},
                       {"choices", option.choices},
                       {"help", option.help},
                       {"preset", option.preset},
                       {"environment", option.environment},
                       {"positional", option.positional},
                       {"required", option.required},
                       {"many", option.many}});
  }
  for (const CommandDescription& below : command.commands) commands.push_back(ToJson(below));
  return {{"name", command.name},
          {"about", command.about},
          {"notes", command.notes},
          {"options", std::move(options)},
          {"commands", std::move(commands)}};
}

std::string TextOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

bool IsTrue(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && *found == true;
}

std::vector<std::string> WordsOf(const Json& json, const char* key) {
  std::vector<std::string> words;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return words;
  for (const Json& word : *found) {
    if (word.is_string()) words.push_back(word.get<std::string>());
  }
  return words;
}

Result<CommandDescription> FromJson(const Json& json, int depth) {
  if (!json.is_object() || TextOf(json, "name").empty() || depth > kDepthMax) {
    return DataLoss("a command line's description is malformed");
  }
  CommandDescription command;
  command.name = TextOf(json, "name");
  command.about = TextOf(json, "about");
  command.notes = TextOf(json, "notes");
  if (const auto options = json.find("options"); options != json.end()) {
    for (const Json& option : *options) {
      if (!option.is_object() || WordsOf(option, "names").empty()) {
        return DataLoss("an option of '" + command.name + "' is malformed");
      }
      command.options.push_back(
          {WordsOf(option, "names"), TextOf(option, "value"), WordsOf(option, "choices"),
           TextOf(option, "help"), TextOf(option, "preset"), TextOf(option, "environment"),
           IsTrue(option, "positional"), IsTrue(option, "required"), IsTrue(option, "many")});
    }
  }
  if (const auto commands = json.find("commands"); commands != json.end()) {
    for (const Json& below : *commands) {
      SHOAL_ASSIGN_OR_RETURN(CommandDescription made, FromJson(below, depth + 1));
      command.commands.push_back(std::move(made));
    }
  }
  return command;
}

}  // namespace

CommandDescription Describe(const CLI::App& app) {
  CommandDescription command;
  command.name = app.get_name();
  command.about = app.get_description();
  command.notes = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) command.options.push_back(DescribeOption(*option));
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!below->get_group().empty()) command.commands.push_back(Describe(*below));
  }
  return command;
}

std::string FormatDescription(const CommandDescription& description) {
  return ToJson(description).dump(1) + "\n";
}

Result<CommandDescription> ParseDescription(const std::string& json) {
  return FromJson(ParseJson<Json>(json), 0);
}

bool PrintedDescription(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.back() != kDescribeFlag) return false;
  const CLI::App* command = &app;
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    const auto below = command->get_subcommands([&arguments, i](const CLI::App* candidate) {
      return candidate->get_name() == arguments[i];
    });
    if (below.empty()) return false;
    command = below.front();
  }
  std::cout << FormatDescription(Describe(*command)) << std::flush;
  return true;
}

}  // namespace shoal
