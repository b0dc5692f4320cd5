// Expressions of a chat template: from words to the tree, by Jinja2's grammar.

#ifndef SHOAL_DATASET_CHAT_EXPRESSION_PARSER_H_
#define SHOAL_DATASET_CHAT_EXPRESSION_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "dataset/chat/template_lexer.h"
#include "dataset/chat/template_syntax.h"

namespace shoal::dataset {

// How many nodes and names a template has at most.
inline constexpr std::size_t kTemplateNodesMax = 100'000;
inline constexpr std::size_t kCallArgumentsMax = 64;

class ExpressionParser {
 public:
  // Both outlive the parser. Nodes and names are added to `tree`.
  ExpressionParser(const std::vector<Token>* tokens, ParsedTemplate* tree)
      : tokens_(*tokens), tree_(*tree) {}

  // An expression, or several with commas between: a tuple. `with_condition`: "a if b else c", too.
  Result<NodeId> ParseTuple(bool with_condition);
  Result<NodeId> ParseExpression(bool with_condition = true);
  // "| filter | filter ..." on `value`, if there is any.
  Result<NodeId> ParseFilters(NodeId value);

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  void Advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool IsName(std::string_view name) const {
    return current().kind == TemplateTokenKind::kName && current().text == name;
  }
  bool IsOperator(std::string_view text) const { return IsOperator(current(), text); }
  bool TakeName(std::string_view name);
  bool TakeOperator(std::string_view text);
  Status ExpectOperator(std::string_view text);
  Result<std::string> ExpectName();
  Status Fail(std::string_view message) const { return TemplateError(current().line, message); }
  // What stands here, for messages.
  std::string Describe() const;

  std::int32_t Intern(const std::string& name);
  Result<NodeId> AddConstant(ChatValue value);

  // Functions that are called by their names, with the line of the first call.
  const std::map<std::string, std::int32_t>& called() const { return called_; }

 private:
  static bool IsOperator(const Token& token, std::string_view text) {
    return token.kind == TemplateTokenKind::kOperator && token.text == text;
  }

  // Counts how deep calls of these nest, which the tree's height does not bound while it is made.
  class Level;

  Result<NodeId> ParseOr();
  Result<NodeId> ParseAnd();
  Result<NodeId> ParseNot();
  Result<NodeId> ParseCompare();
  Result<NodeId> ParseSum();
  Result<NodeId> ParseConcat();
  Result<NodeId> ParseProduct();
  Result<NodeId> ParsePower();
  Result<NodeId> ParseUnary(bool with_filters);
  Result<NodeId> ParsePrimary();
  Result<NodeId> ParseParentheses();
  Result<NodeId> ParseList();
  Result<NodeId> ParseDict();
  Result<NodeId> ParsePostfix(NodeId value);
  Result<NodeId> ParseFiltersAndTests(NodeId value);
  Result<NodeId> ParseAttribute(NodeId value);
  Result<NodeId> ParseSubscript(NodeId value);
  Result<NodeId> ParseCall(NodeId function);
  Result<NodeId> ParseFilter(NodeId value);
  Result<NodeId> ParseTest(NodeId value);
  Result<std::vector<Argument>> ParseArguments();
  Status CheckCallee(NodeId function);
  Status CheckNamedFilter(std::int32_t line, std::string_view filter,
                          const std::vector<Argument>& arguments) const;
  bool TakeComparison(Comparison* comparison);
  bool IsTupleEnd() const;

  Expression Node(ExpressionKind kind) const;
  Result<NodeId> Add(Expression node);
  Result<NodeId> AddBinary(ExpressionKind kind, NodeId left, NodeId right);
  const std::string* ConstantText(NodeId id) const;

  const std::vector<Token>& tokens_;
  ParsedTemplate& tree_;
  std::size_t at_ = 0;
  std::int32_t level_ = 0;
  std::map<std::string, std::int32_t> ids_;  // of names
  std::map<std::string, std::int32_t> called_;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_EXPRESSION_PARSER_H_
