#include "dataset/chat/expression_parser.h"

#include <algorithm>
#include <optional>

#include "dataset/chat/filters.h"
#include "dataset/chat/methods.h"
#include "dataset/chat/value_tests.h"

namespace shoal::dataset {
namespace {

// Levels of brackets and of operators that stand before their operand; brackets count twice. Each
// takes a dozen calls.
constexpr std::int32_t kLevelsMax = 2 * kTreeHeightMax;

Status Unsupported(std::int32_t line, std::string_view what, std::string_view name) {
  return TemplateError(
      line, "the " + std::string(what) + " '" + std::string(name) + "' is not supported");
}

}  // namespace

class ExpressionParser::Level {
 public:
  explicit Level(ExpressionParser* parser) : parser_(parser) { ++parser_->level_; }
  ~Level() { --parser_->level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  Status Check() const {
    if (parser_->level_ <= kLevelsMax) return Status::Ok();
    return parser_->Fail("expressions nest too deep");
  }

 private:
  ExpressionParser* const parser_;
};

// ---- words --------------------------------------------------------------------------------------

bool ExpressionParser::TakeName(std::string_view name) {
  if (!IsName(name)) return false;
  Advance();
  return true;
}

bool ExpressionParser::TakeOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  Advance();
  return true;
}

Status ExpressionParser::ExpectOperator(std::string_view text) {
  if (TakeOperator(text)) return Status::Ok();
  return Fail("'" + std::string(text) + "' is expected, not " + Describe());
}

Result<std::string> ExpressionParser::ExpectName() {
  if (current().kind != TemplateTokenKind::kName)
    return Fail("a name is expected, not " + Describe());
  std::string name = current().text;
  Advance();
  return name;
}

std::string ExpressionParser::Describe() const {
  switch (current().kind) {
    case TemplateTokenKind::kText: return "text";
    case TemplateTokenKind::kOutputBegin: return "'{{'";
    case TemplateTokenKind::kOutputEnd: return "'}}'";
    case TemplateTokenKind::kTagBegin: return "'{%'";
    case TemplateTokenKind::kTagEnd: return "'%}'";
    case TemplateTokenKind::kString: return "a string";
    case TemplateTokenKind::kInteger:
    case TemplateTokenKind::kFloat: return "a number";
    case TemplateTokenKind::kName:
    case TemplateTokenKind::kOperator: return "'" + current().text + "'";
    case TemplateTokenKind::kEnd: break;
  }
  return "the end of the template";
}

// ---- nodes --------------------------------------------------------------------------------------

std::int32_t ExpressionParser::Intern(const std::string& name) {
  const auto [place, is_new] = ids_.emplace(name, static_cast<std::int32_t>(tree_.names.size()));
  if (is_new) tree_.names.push_back(name);
  return place->second;
}

Expression ExpressionParser::Node(ExpressionKind kind) const {
  Expression node;
  node.kind = kind;
  node.line = current().line;
  return node;
}

Result<NodeId> ExpressionParser::Add(Expression node) {
  if (tree_.expressions.size() >= kTemplateNodesMax) {
    return TemplateError(node.line, "the template is too large");
  }
  const auto raise = [&](NodeId operand) {
    if (operand == kNoNode) return;
    const Expression& below = tree_.expressions[static_cast<std::size_t>(operand)];
    node.height = std::max(node.height, below.height + 1);
  };
  for (const NodeId operand : node.operands) raise(operand);
  for (const Argument& argument : node.arguments) raise(argument.value);
  if (node.height > kTreeHeightMax) return TemplateError(node.line, "expressions nest too deep");
  tree_.expressions.push_back(std::move(node));
  return static_cast<NodeId>(tree_.expressions.size() - 1);
}

Result<NodeId> ExpressionParser::AddConstant(ChatValue value) {
  Expression node = Node(ExpressionKind::kConstant);
  node.constant = std::move(value);
  return Add(std::move(node));
}

Result<NodeId> ExpressionParser::AddBinary(ExpressionKind kind, NodeId left, NodeId right) {
  Expression node = Node(kind);
  node.line = tree_.expressions[static_cast<std::size_t>(left)].line;
  node.operands = {left, right};
  return Add(std::move(node));
}

const std::string* ExpressionParser::ConstantText(NodeId id) const {
  const Expression& node = tree_.expressions[static_cast<std::size_t>(id)];
  return node.kind == ExpressionKind::kConstant ? node.constant.string() : nullptr;
}

// ---- operators, those that bind least first -----------------------------------------------------

bool ExpressionParser::IsTupleEnd() const {
  const TemplateTokenKind kind = current().kind;
  return kind == TemplateTokenKind::kOutputEnd || kind == TemplateTokenKind::kTagEnd ||
         IsOperator(")");
}

Result<NodeId> ExpressionParser::ParseTuple(bool with_condition) {
  Expression tuple = Node(ExpressionKind::kTuple);
  bool has_comma = false;
  while (!IsTupleEnd()) {
    SHOAL_ASSIGN_OR_RETURN(const NodeId item, ParseExpression(with_condition));
    tuple.operands.push_back(item);
    if (!TakeOperator(",")) break;
    has_comma = true;
  }
  if (has_comma) return Add(std::move(tuple));
  if (tuple.operands.empty()) return Fail("an expression is expected, not " + Describe());
  return tuple.operands[0];
}

Result<NodeId> ExpressionParser::ParseExpression(bool with_condition) {
  const Level level(this);
  SHOAL_RETURN_IF_ERROR(level.Check());
  SHOAL_ASSIGN_OR_RETURN(NodeId value, ParseOr());
  while (with_condition && IsName("if")) {
    Expression node = Node(ExpressionKind::kCondition);
    Advance();
    SHOAL_ASSIGN_OR_RETURN(const NodeId condition, ParseOr());
    NodeId otherwise = kNoNode;
    if (TakeName("else")) {
      SHOAL_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    node.operands = {value, condition, otherwise};
    SHOAL_ASSIGN_OR_RETURN(value, Add(std::move(node)));
  }
  return value;
}

Result<NodeId> ExpressionParser::ParseOr() {
  SHOAL_ASSIGN_OR_RETURN(NodeId left, ParseAnd());
  while (TakeName("or")) {
    SHOAL_ASSIGN_OR_RETURN(const NodeId right, ParseAnd());
    SHOAL_ASSIGN_OR_RETURN(left, AddBinary(ExpressionKind::kOr, left, right));
  }
  return left;
}

Result<NodeId> ExpressionParser::ParseAnd() {
  SHOAL_ASSIGN_OR_RETURN(NodeId left, ParseNot());
  while (TakeName("and")) {
    SHOAL_ASSIGN_OR_RETURN(const NodeId right, ParseNot());
    SHOAL_ASSIGN_OR_RETURN(left, AddBinary(ExpressionKind::kAnd, left, right));
  }
  return left;
}

Result<NodeId> ExpressionParser::ParseNot() {
  if (!IsName("not")) return ParseCompare();
  const Level level(this);
  SHOAL_RETURN_IF_ERROR(level.Check());
  Expression node = Node(ExpressionKind::kNot);
  Advance();
  SHOAL_ASSIGN_OR_RETURN(const NodeId value, ParseNot());
  node.operands = {value};
  return Add(std::move(node));
}

bool ExpressionParser::TakeComparison(Comparison* comparison) {
  static constexpr std::pair<std::string_view, Comparison> kSymbols[] = {
      {"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},    {"<=", Comparison::kLessEqual},
      {">", Comparison::kGreater}, {">=", Comparison::kGreaterEqual}};
  for (const auto& [symbol, meaning] : kSymbols) {
    if (!TakeOperator(symbol)) continue;
    *comparison = meaning;
    return true;
  }
  if (TakeName("in")) {
    *comparison = Comparison::kIn;
    return true;
  }
  if (!IsName("not") || ahead().kind != TemplateTokenKind::kName || ahead().text != "in")
    return false;
  Advance();
  Advance();
  *comparison = Comparison::kNotIn;
  return true;
}

Result<NodeId> ExpressionParser::ParseCompare() {
  Expression node = Node(ExpressionKind::kCompare);
  SHOAL_ASSIGN_OR_RETURN(const NodeId first, ParseSum());
  node.operands.push_back(first);
  for (Comparison comparison{}; TakeComparison(&comparison);) {
    SHOAL_ASSIGN_OR_RETURN(const NodeId next, ParseSum());
    node.operands.push_back(next);
    node.comparisons.push_back(comparison);
  }
  if (node.comparisons.empty()) return first;
  return Add(std::move(node));
}

Result<NodeId> ExpressionParser::ParseSum() {
  SHOAL_ASSIGN_OR_RETURN(NodeId left, ParseConcat());
  while (IsOperator("+") || IsOperator("-")) {
    const Arithmetic operation = IsOperator("+") ? Arithmetic::kAdd : Arithmetic::kSubtract;
    Advance();
    SHOAL_ASSIGN_OR_RETURN(const NodeId right, ParseConcat());
    SHOAL_ASSIGN_OR_RETURN(left, AddBinary(ExpressionKind::kArithmetic, left, right));
    tree_.expressions.back().arithmetic = operation;
  }
  return left;
}

Result<NodeId> ExpressionParser::ParseConcat() {
  Expression node = Node(ExpressionKind::kConcat);
  SHOAL_ASSIGN_OR_RETURN(const NodeId first, ParseProduct());
  node.operands.push_back(first);
  while (TakeOperator("~")) {
    SHOAL_ASSIGN_OR_RETURN(const NodeId next, ParseProduct());
    node.operands.push_back(next);
  }
  if (node.operands.size() == 1) return first;
  return Add(std::move(node));
}

Result<NodeId> ExpressionParser::ParseProduct() {
  static constexpr std::pair<std::string_view, Arithmetic> kSymbols[] = {
      {"*", Arithmetic::kMultiply},
      {"/", Arithmetic::kDivide},
      {"//", Arithmetic::kFloorDivide},
      {"%", Arithmetic::kModulo}};
  SHOAL_ASSIGN_OR_RETURN(NodeId left, ParsePower());
  while (true) {
    const auto found = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                    [&](const auto& symbol) { return IsOperator(symbol.first); });
    if (found == std::end(kSymbols)) return left;
    Advance();
    SHOAL_ASSIGN_OR_RETURN(const NodeId right, ParsePower());
    SHOAL_ASSIGN_OR_RETURN(left, AddBinary(ExpressionKind::kArithmetic, left, right));
    tree_.expressions.back().arithmetic = found->second;
  }
}

Result<NodeId> ExpressionParser::ParsePower() {
  SHOAL_ASSIGN_OR_RETURN(NodeId left, ParseUnary(true));
  while (TakeOperator("**")) {
    SHOAL_ASSIGN_OR_RETURN(const NodeId right, ParseUnary(true));
    SHOAL_ASSIGN_OR_RETURN(left, AddBinary(ExpressionKind::kArithmetic, left, right));
    tree_.expressions.back().arithmetic = Arithmetic::kPower;
  }
  return left;
}

Result<NodeId> ExpressionParser::ParseUnary(bool with_filters) {
  const Level level(this);
  SHOAL_RETURN_IF_ERROR(level.Check());
  NodeId value = kNoNode;
  if (IsOperator("-") || IsOperator("+")) {
    Expression node = Node(IsOperator("-") ? ExpressionKind::kNegative : ExpressionKind::kPositive);
    Advance();
    SHOAL_ASSIGN_OR_RETURN(const NodeId operand, ParseUnary(false));
    node.operands = {operand};
    SHOAL_ASSIGN_OR_RETURN(value, Add(std::move(node)));
  } else {
    SHOAL_ASSIGN_OR_RETURN(value, ParsePrimary());
  }
  SHOAL_ASSIGN_OR_RETURN(value, ParsePostfix(value));
  if (!with_filters) return value;
  return ParseFiltersAndTests(value);
}

// ---- values -------------------------------------------------------------------------------------

Result<NodeId> ExpressionParser::ParsePrimary() {
  const Token& token = current();
  if (IsOperator("(")) return ParseParentheses();
  if (IsOperator("[")) return ParseList();
  if (IsOperator("{")) return ParseDict();
  Expression node = Node(ExpressionKind::kConstant);
  if (token.kind == TemplateTokenKind::kString) {
    std::string text;
    for (; current().kind == TemplateTokenKind::kString; Advance()) text += current().text;
    node.constant = ChatValue(std::move(text));
    return Add(std::move(node));
  }
  if (token.kind == TemplateTokenKind::kInteger) {
    node.constant = ChatValue(token.integer);
  } else if (token.kind == TemplateTokenKind::kFloat) {
    node.constant = ChatValue(token.number);
  } else if (token.kind != TemplateTokenKind::kName) {
    return Fail("an expression is expected, not " + Describe());
  } else if (token.text == "true" || token.text == "True") {
    node.constant = ChatValue(true);
  } else if (token.text == "false" || token.text == "False") {
    node.constant = ChatValue(false);
  } else if (token.text != "none" && token.text != "None") {
    node.kind = ExpressionKind::kName;
    node.name = Intern(token.text);
  }
  Advance();
  return Add(std::move(node));
}

Result<NodeId> ExpressionParser::ParseParentheses() {
  Expression empty = Node(ExpressionKind::kTuple);
  Advance();
  if (TakeOperator(")")) return Add(std::move(empty));
  SHOAL_ASSIGN_OR_RETURN(const NodeId inside, ParseTuple(true));
  SHOAL_RETURN_IF_ERROR(ExpectOperator(")"));
  return inside;
}

Result<NodeId> ExpressionParser::ParseList() {
  Expression node = Node(ExpressionKind::kList);
  Advance();
  while (!IsOperator("]")) {
    SHOAL_ASSIGN_OR_RETURN(const NodeId item, ParseExpression());
    node.operands.push_back(item);
    if (!TakeOperator(",")) break;
  }
  SHOAL_RETURN_IF_ERROR(ExpectOperator("]"));
  return Add(std::move(node));
}

Result<NodeId> ExpressionParser::ParseDict() {
  Expression node = Node(ExpressionKind::kDict);
  Advance();
  while (!IsOperator("}")) {
    SHOAL_ASSIGN_OR_RETURN(const NodeId key, ParseExpression());
    SHOAL_RETURN_IF_ERROR(ExpectOperator(":"));
    SHOAL_ASSIGN_OR_RETURN(const NodeId value, ParseExpression());
    node.operands.push_back(key);
    node.operands.push_back(value);
    if (!TakeOperator(",")) break;
  }
  SHOAL_RETURN_IF_ERROR(ExpectOperator("}"));
  return Add(std::move(node));
}

// ---- what stands behind a value -----------------------------------------------------------------

Result<NodeId> ExpressionParser::ParsePostfix(NodeId value) {
  while (true) {
    if (IsOperator(".")) {
      SHOAL_ASSIGN_OR_RETURN(value, ParseAttribute(value));
    } else if (IsOperator("[")) {
      SHOAL_ASSIGN_OR_RETURN(value, ParseSubscript(value));
    } else if (IsOperator("(")) {
      SHOAL_ASSIGN_OR_RETURN(value, ParseCall(value));
    } else {
      return value;
    }
  }
}

Result<NodeId> ExpressionParser::ParseFiltersAndTests(NodeId value) {
  while (true) {
    if (IsOperator("|")) {
      SHOAL_ASSIGN_OR_RETURN(value, ParseFilter(value));
    } else if (IsName("is")) {
      SHOAL_ASSIGN_OR_RETURN(value, ParseTest(value));
    } else if (IsOperator("(")) {
      SHOAL_ASSIGN_OR_RETURN(value, ParseCall(value));
    } else {
      return value;
    }
  }
}

Result<NodeId> ExpressionParser::ParseFilters(NodeId value) {
  while (IsOperator("|")) {
    SHOAL_ASSIGN_OR_RETURN(value, ParseFilter(value));
  }
  return value;
}

Result<NodeId> ExpressionParser::ParseAttribute(NodeId value) {
  Expression node = Node(ExpressionKind::kAttribute);
  Advance();
  if (current().kind == TemplateTokenKind::kInteger) {
    SHOAL_ASSIGN_OR_RETURN(const NodeId index, AddConstant(ChatValue(current().integer)));
    Advance();
    node.kind = ExpressionKind::kItem;
    node.operands = {value, index};
    return Add(std::move(node));
  }
  SHOAL_ASSIGN_OR_RETURN(const std::string name, ExpectName());
  if (name.starts_with("__")) return Unsupported(node.line, "attribute", name);
  node.operands = {value};
  node.name = Intern(name);
  return Add(std::move(node));
}

Result<NodeId> ExpressionParser::ParseSubscript(NodeId value) {
  Expression node = Node(ExpressionKind::kItem);
  Advance();
  std::vector<NodeId> bounds;
  bool is_slice = false;
  for (int part = 0; part < 3; ++part) {
    NodeId bound = kNoNode;
    if (!IsOperator(":") && !IsOperator("]")) {
      SHOAL_ASSIGN_OR_RETURN(bound, ParseExpression());
    }
    bounds.push_back(bound);
    if (part == 2 || !TakeOperator(":")) break;
    is_slice = true;
  }
  if (IsOperator(",")) return Fail("an index of several values is not supported");
  SHOAL_RETURN_IF_ERROR(ExpectOperator("]"));
  if (!is_slice) {
    if (bounds[0] == kNoNode) return Fail("an index is empty");
    if (const std::string* key = ConstantText(bounds[0])) node.name = Intern(*key);
    node.operands = {value, bounds[0]};
    return Add(std::move(node));
  }
  node.kind = ExpressionKind::kSlice;
  bounds.resize(3, kNoNode);
  node.operands = {value, bounds[0], bounds[1], bounds[2]};
  return Add(std::move(node));
}

Result<std::vector<Argument>> ExpressionParser::ParseArguments() {
  std::vector<Argument> arguments;
  SHOAL_RETURN_IF_ERROR(ExpectOperator("("));
  while (!IsOperator(")")) {
    Argument argument;
    if (IsOperator("*") || IsOperator("**")) {
      return Fail("'" + current().text + "' before an argument is not supported");
    }
    if (current().kind == TemplateTokenKind::kName && IsOperator(ahead(), "=")) {
      argument.name = current().text;
      Advance();
      Advance();
    } else if (!arguments.empty() && !arguments.back().name.empty()) {
      return Fail("an argument without a name stands behind one with a name");
    }
    SHOAL_ASSIGN_OR_RETURN(argument.value, ParseExpression());
    arguments.push_back(std::move(argument));
    if (arguments.size() > kCallArgumentsMax) return Fail("a call has too many arguments");
    if (!TakeOperator(",")) break;
  }
  SHOAL_RETURN_IF_ERROR(ExpectOperator(")"));
  return arguments;
}

// A method must be known now; what a name stands for is known when the whole template is read.
Status ExpressionParser::CheckCallee(NodeId function) {
  const Expression& callee = tree_.expressions[static_cast<std::size_t>(function)];
  if (callee.kind == ExpressionKind::kName) {
    called_.emplace(tree_.names[static_cast<std::size_t>(callee.name)], callee.line);
  }
  if (callee.kind != ExpressionKind::kAttribute) return Status::Ok();
  const std::string& name = tree_.names[static_cast<std::size_t>(callee.name)];
  if (IsMethod(name)) return Status::Ok();
  if (IsChangingMethod(name)) {
    return TemplateError(
        callee.line, "the method '" + name + "' is not supported: lists and dicts do not change");
  }
  return Unsupported(callee.line, "method", name);
}

Result<NodeId> ExpressionParser::ParseCall(NodeId function) {
  Expression node = Node(ExpressionKind::kCall);
  SHOAL_RETURN_IF_ERROR(CheckCallee(function));
  SHOAL_ASSIGN_OR_RETURN(node.arguments, ParseArguments());
  node.operands = {function};
  return Add(std::move(node));
}

// Filters and tests that are arguments of a filter, as in map('upper').
Status ExpressionParser::CheckNamedFilter(std::int32_t line, std::string_view filter,
                                          const std::vector<Argument>& arguments) const {
  const bool by_attribute = filter == "selectattr" || filter == "rejectattr";
  const bool selects = filter == "select" || filter == "reject" || by_attribute;
  const std::size_t place = by_attribute ? 1 : 0;
  if (!selects && filter != "map") return Status::Ok();
  if (arguments.size() <= place || !arguments[place].name.empty()) return Status::Ok();
  const std::string* name = ConstantText(arguments[place].value);
  if (name == nullptr) return Status::Ok();
  if (selects) {
    return FindTest(*name) != nullptr ? Status::Ok() : Unsupported(line, "test", *name);
  }
  return IsFilter(*name) ? Status::Ok() : Unsupported(line, "filter", *name);
}

Result<NodeId> ExpressionParser::ParseFilter(NodeId value) {
  Advance();
  Expression node = Node(ExpressionKind::kFilter);
  SHOAL_ASSIGN_OR_RETURN(const std::string name, ExpectName());
  if (!IsFilter(name)) return Unsupported(node.line, "filter", name);
  if (IsOperator("(")) {
    SHOAL_ASSIGN_OR_RETURN(node.arguments, ParseArguments());
  }
  SHOAL_RETURN_IF_ERROR(CheckNamedFilter(node.line, name, node.arguments));
  node.name = Intern(name);
  node.operands = {value};
  return Add(std::move(node));
}

Result<NodeId> ExpressionParser::ParseTest(NodeId value) {
  Advance();
  Expression node = Node(ExpressionKind::kTest);
  const bool negated = TakeName("not");
  SHOAL_ASSIGN_OR_RETURN(const std::string name, ExpectName());
  if (FindTest(name) == nullptr) return Unsupported(node.line, "test", name);
  const TemplateTokenKind kind = current().kind;
  const bool begins_value = kind == TemplateTokenKind::kName ||
                            kind == TemplateTokenKind::kString ||
                            kind == TemplateTokenKind::kInteger ||
                            kind == TemplateTokenKind::kFloat || IsOperator("[") || IsOperator("{");
  if (IsOperator("(")) {
    SHOAL_ASSIGN_OR_RETURN(node.arguments, ParseArguments());
  } else if (begins_value && !IsName("else") && !IsName("or") && !IsName("and")) {
    if (IsName("is")) return Fail("a test stands behind a test");
    SHOAL_ASSIGN_OR_RETURN(NodeId argument, ParsePrimary());
    SHOAL_ASSIGN_OR_RETURN(argument, ParsePostfix(argument));
    node.arguments = {{"", argument}};
  }
  node.name = Intern(name);
  node.operands = {value};
  SHOAL_ASSIGN_OR_RETURN(const NodeId test, Add(std::move(node)));
  if (!negated) return test;
  Expression opposite = Node(ExpressionKind::kNot);
  opposite.operands = {test};
  return Add(std::move(opposite));
}

}  // namespace shoal::dataset
