// One rendering of a chat template: it walks over the tree and writes the text.

#ifndef SHOAL_DATASET_CHAT_TEMPLATE_RENDERER_H_
#define SHOAL_DATASET_CHAT_TEMPLATE_RENDERER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "dataset/chat/chat_value.h"
#include "dataset/chat/chat_work.h"
#include "dataset/chat/native_function.h"
#include "dataset/chat/template_syntax.h"

namespace shoal::dataset {

// How deep statements, expressions and calls of macros nest while they are carried out.
inline constexpr int kRenderDepthMax = 400;
// What range() gives at most, as in Jinja's sandbox.
inline constexpr std::int64_t kRangeMax = 100'000;

// Thread: one at a time.
class TemplateRenderer {
 public:
  // `tree` outlives it.
  TemplateRenderer(const ParsedTemplate* tree, const ChatLimits& limits,
                   std::optional<std::chrono::sys_seconds> now);

  // A variable; of several with one name the last counts.
  void Define(std::string_view name, ChatValue value);
  // Once. Errors begin with the template's name and the line.
  Result<std::string> Run(std::vector<ByteRange>* generated);

 private:
  struct Local {
    std::int32_t name;
    ChatValue value;
  };
  // The variables of a body that end with it.
  struct Scope {
    std::size_t begin = 0;       // in locals_
    std::size_t frame_base = 0;  // the first local that a macro's body sees
    bool is_top = true;
  };
  enum class Leap { kNone, kBreak, kContinue };

  // Statements.
  Status ExecuteAll(const std::vector<NodeId>& body);
  Status Execute(const Statement& statement);
  Status ExecuteIn(const Statement& statement);
  Status Print(const Statement& statement);
  Status Set(const Statement& statement);
  Status SetBlock(const Statement& statement);
  Status For(const Statement& statement);
  Status ForBody(const Statement& statement, std::vector<ChatValue> items);
  Result<std::vector<ChatValue>> FilterItems(const Statement& statement,
                                             std::vector<ChatValue> items);
  Status If(const Statement& statement);
  Status Generation(const Statement& statement);
  Status Assign(const Target& target, const ChatValue& value);
  Status Write(std::string_view text);

  // Variables.
  Scope EnterScope();
  void LeaveScope(const Scope& outside);
  void SetVariable(std::int32_t name, ChatValue value);
  ChatValue Variable(std::int32_t name) const;
  std::string_view NameOf(std::int32_t name) const;
  std::int32_t FindName(std::string_view name) const;
  Status CheckDefined(const ChatValue& value) const;

  // Expressions.
  Result<ChatValue> Evaluate(NodeId id);
  Result<ChatValue> EvaluateNode(const Expression& node);
  Result<ChatValue> EvaluateOperands(const Expression& node);
  Result<ChatValue> Arithmetics(const Expression& node);
  Result<ChatValue> Concat(const Expression& node);
  Result<ChatValue> Compare(const Expression& node);
  Result<bool> CompareOnce(Comparison comparison, const ChatValue& a, const ChatValue& b);
  Result<ChatValue> Container(const Expression& node);
  Result<ChatValue> Dict(const Expression& node);
  Result<ChatValue> Condition(const Expression& node);
  Result<ChatValue> Member(const Expression& node);
  Result<ChatValue> Slice(const Expression& node);
  Result<ChatValue> Filter(const Expression& node);
  Result<ChatValue> Test(const Expression& node);
  Result<ChatValue> Call(const Expression& node);
  Result<CallArguments> Arguments(const Expression& node);

  // Calls.
  Result<ChatValue> CallMacro(const Macro& macro, const CallArguments& arguments);
  Status BindParameters(const Macro& macro, const CallArguments& arguments);
  Result<ChatValue> CallFunction(std::int32_t index, const CallArguments& arguments);
  Result<ChatValue> Raise(const CallArguments& arguments);
  Result<ChatValue> Namespace(const CallArguments& arguments);
  Result<ChatValue> Range(const CallArguments& arguments);
  Result<ChatValue> Today(const CallArguments& arguments);
  Result<std::vector<std::pair<ChatValue, ChatValue>>> Pairs(const CallArguments& arguments);

  using Attributes = std::vector<std::pair<std::string, ChatValue>>;

  const ParsedTemplate& tree_;
  ChatWork work_;
  const std::optional<std::chrono::sys_seconds> now_;
  const std::int32_t loop_name_;
  std::vector<std::optional<ChatValue>> globals_;  // by name
  std::vector<Local> locals_;
  Scope scope_;
  std::vector<Attributes> namespaces_;
  std::string text_;
  std::string* out_ = &text_;  // what is written to: the text, or that of a macro or a block
  std::vector<ByteRange>* generated_ = nullptr;
  Leap leap_ = Leap::kNone;
  int depth_ = 0;
  std::int32_t error_line_ = 0;  // of the innermost node that failed
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_TEMPLATE_RENDERER_H_
