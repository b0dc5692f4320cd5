// The tree of a chat template. Nodes lie in arrays and refer to each other by index, so that
// nothing recurses when a tree is freed.

#ifndef SHOAL_DATASET_CHAT_TEMPLATE_SYNTAX_H_
#define SHOAL_DATASET_CHAT_TEMPLATE_SYNTAX_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dataset/chat/chat_value.h"

namespace shoal::dataset {

// How many levels a tree has, of expressions and of statements in each other.
inline constexpr std::int32_t kTreeHeightMax = 100;

using NodeId = std::int32_t;
inline constexpr NodeId kNoNode = -1;

enum class ExpressionKind : std::uint8_t {
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,      // operands: key, value, key, value ...
  kNot,       // operands: one
  kNegative,  // and so on
  kPositive,
  kAnd,
  kOr,
  kArithmetic,  // `arithmetic`, two operands
  kConcat,      // "~" between all operands
  kCompare,     // `comparisons` between the operands, all must hold
  kCondition,   // operands: then, condition, else or kNoNode
  kAttribute,   // `name` of an operand
  kItem,        // operands: container, key
  kSlice,       // operands: container, begin, end, step; kNoNode where there is none
  kCall,        // operands: function; `arguments`
  kFilter,      // operands: value; `name`, `arguments`
  kTest,        // the same
};

enum class Arithmetic : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
};

enum class Comparison : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Argument {
  std::string name;  // "" where it counts by its place
  NodeId value = kNoNode;
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  Arithmetic arithmetic = Arithmetic::kAdd;
  std::int32_t line = 1;
  std::int32_t height = 1;
  std::int32_t name = -1;  // in ParsedTemplate::names
  ChatValue constant;
  std::vector<NodeId> operands;
  std::vector<Comparison> comparisons;
  std::vector<Argument> arguments;
};

enum class StatementKind : std::uint8_t {
  kText,
  kPrint,
  kSet,
  kSetBlock,
  kFor,
  kIf,
  kMacro,
  kGeneration,
  kBreak,
  kContinue,
};

// What is assigned to: names, or an attribute of a namespace.
struct Target {
  std::vector<std::int32_t> names;
  bool unpacks = false;         // the value is as many values
  std::int32_t attribute = -1;  // of the namespace names[0]
};

struct Branch {
  NodeId test = kNoNode;  // kNoNode: always
  std::vector<NodeId> body;
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  std::int32_t line = 1;
  std::string text;              // kText
  NodeId expression = kNoNode;   // printed, assigned, walked over; filters of kSetBlock
  NodeId condition = kNoNode;    // of the items of kFor
  Target target;                 // kSet, kSetBlock, kFor
  std::vector<Branch> branches;  // kIf: tried in order; kFor: body and else; others: the body
  std::int32_t macro = -1;       // kMacro: in ParsedTemplate::macros
};

struct MacroParameter {
  std::int32_t name = -1;
  NodeId otherwise = kNoNode;
};

struct Macro {
  std::int32_t name = -1;
  std::vector<MacroParameter> parameters;
  std::vector<NodeId> body;
};

struct ParsedTemplate {
  std::string name;
  std::vector<std::string> names;  // of variables, attributes, filters, tests
  std::vector<Expression> expressions;
  std::vector<Statement> statements;
  std::vector<Macro> macros;
  std::vector<NodeId> body;
  bool marks_generation = false;
};

// The name that a block of `set` gives its text to filters under.
inline constexpr char kBlockText[] = "text of the block";

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_TEMPLATE_SYNTAX_H_
