#include "dataset/chat/template_parser.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dataset/chat/expression_parser.h"
#include "dataset/chat/template_lexer.h"

namespace shoal::dataset {
namespace {

// Tags that Jinja knows, and templates of models do not use.
constexpr std::string_view kForeignTags[] = {"block", "extends", "include", "import",
                                             "from",  "call",    "filter",  "autoescape",
                                             "with",  "print",   "trans",   "do"};

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens)
      : tokens_(std::move(tokens)), words_(&tokens_, &tree_) {}

  Result<ParsedTemplate> Run() {
    SHOAL_RETURN_IF_ERROR(ParseBody({}, &tree_.body));
    for (const auto& [name, line] : words_.called()) {
      const bool known = std::find(std::begin(kFunctionNames), std::end(kFunctionNames), name) !=
                         std::end(kFunctionNames);
      if (!known && assigned_.count(name) == 0) {
        return TemplateError(line, "the function '" + name + "' is not supported");
      }
    }
    return std::move(tree_);
  }

 private:
  using Names = std::vector<std::string_view>;

  // What statements stand in.
  struct Place {
    int loops = 0;         // that `break` can leave
    bool is_top = true;    // in no scope but the template's: macros can be there
    bool is_plain = true;  // what is written here stands in the result as it is
  };

  // Statements up to a tag of `ends`, whose name is then current; with none: up to the end.
  Status ParseBody(const Names& ends, std::vector<NodeId>* body) {
    if (++level_ > kTreeHeightMax) return words_.Fail("tags nest too deep");
    while (words_.current().kind != TemplateTokenKind::kEnd) {
      const Token& token = words_.current();
      if (token.kind == TemplateTokenKind::kText) {
        Statement text = At(StatementKind::kText);
        text.text = token.text;
        words_.Advance();
        SHOAL_RETURN_IF_ERROR(Add(std::move(text), body));
      } else if (token.kind == TemplateTokenKind::kOutputBegin) {
        SHOAL_RETURN_IF_ERROR(ParseOutput(body));
      } else {
        words_.Advance();
        if (IsEnd(ends)) break;
        SHOAL_RETURN_IF_ERROR(ParseTag(body));
      }
    }
    --level_;
    if (ends.empty() || words_.current().kind != TemplateTokenKind::kEnd) return Status::Ok();
    return words_.Fail("the template ends before '" + std::string(ends.back()) + "'");
  }

  bool IsEnd(const Names& ends) const {
    return std::any_of(ends.begin(), ends.end(),
                       [&](std::string_view end) { return words_.IsName(end); });
  }

  Status ParseOutput(std::vector<NodeId>* body) {
    Statement print = At(StatementKind::kPrint);
    words_.Advance();
    SHOAL_ASSIGN_OR_RETURN(print.expression, words_.ParseTuple(true));
    if (words_.current().kind != TemplateTokenKind::kOutputEnd) {
      return words_.Fail("'}}' is expected, not " + words_.Describe());
    }
    words_.Advance();
    return Add(std::move(print), body);
  }

  Status EndTag() {
    if (words_.current().kind != TemplateTokenKind::kTagEnd) {
      return words_.Fail("'%}' is expected, not " + words_.Describe());
    }
    words_.Advance();
    return Status::Ok();
  }

  // The body of a tag up to the tag `end`, whose name is taken.
  Status ParseBlock(const char* end, std::vector<NodeId>* body) {
    SHOAL_RETURN_IF_ERROR(BeginBlock());
    SHOAL_RETURN_IF_ERROR(ParseBody({end}, body));
    words_.Advance();
    return EndTag();
  }
  // A tag that opens a block may end with a colon.
  Status BeginBlock() {
    words_.TakeOperator(":");
    return EndTag();
  }

  Status ParseTag(std::vector<NodeId>* body) {
    if (words_.TakeName("set")) return ParseSet(body);
    if (words_.TakeName("if")) return ParseIf(body);
    if (words_.TakeName("for")) return ParseFor(body);
    if (words_.TakeName("macro")) return ParseMacro(body);
    if (words_.TakeName("generation")) return ParseGeneration(body);
    if (words_.IsName("break") || words_.IsName("continue")) return ParseLeap(body);
    const Token& token = words_.current();
    if (token.kind != TemplateTokenKind::kName) {
      return words_.Fail("the name of a tag is expected, not " + words_.Describe());
    }
    const bool foreign = std::find(std::begin(kForeignTags), std::end(kForeignTags), token.text) !=
                         std::end(kForeignTags);
    return words_.Fail(
        "the tag '" + token.text +
        (foreign || !token.text.starts_with("e") ? "' is not supported" : "' closes no tag here"));
  }

  Result<Target> ParseTarget(bool with_attribute) {
    Target target;
    const bool parentheses = words_.TakeOperator("(");
    while (true) {
      SHOAL_ASSIGN_OR_RETURN(const std::string name, words_.ExpectName());
      if (IsReserved(name)) return words_.Fail("'" + name + "' cannot be assigned to");
      assigned_.insert(name);
      target.names.push_back(words_.Intern(name));
      if (with_attribute && target.names.size() == 1 && words_.TakeOperator(".")) {
        SHOAL_ASSIGN_OR_RETURN(const std::string attribute, words_.ExpectName());
        if (attribute.starts_with("_")) {
          return words_.Fail("an attribute of a namespace begins with '_'");
        }
        target.attribute = words_.Intern(attribute);
        return target;
      }
      if (!words_.TakeOperator(",")) break;
      target.unpacks = true;
      if (words_.IsName("in") || words_.IsOperator("=") || words_.IsOperator(")")) break;
    }
    if (parentheses) SHOAL_RETURN_IF_ERROR(words_.ExpectOperator(")"));
    return target;
  }
  static bool IsReserved(std::string_view name) {
    constexpr std::string_view kReserved[] = {"true", "false", "none", "True", "False", "None"};
    return std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
  }

  Status ParseSet(std::vector<NodeId>* body) {
    Statement set = At(StatementKind::kSet);
    SHOAL_ASSIGN_OR_RETURN(set.target, ParseTarget(true));
    if (words_.TakeOperator("=")) {
      SHOAL_ASSIGN_OR_RETURN(set.expression, words_.ParseTuple(true));
      SHOAL_RETURN_IF_ERROR(EndTag());
      return Add(std::move(set), body);
    }
    if (set.target.unpacks) return words_.Fail("a block cannot be assigned to several names");
    set.kind = StatementKind::kSetBlock;
    SHOAL_ASSIGN_OR_RETURN(const NodeId block, AddBlockText());
    SHOAL_ASSIGN_OR_RETURN(set.expression, words_.ParseFilters(block));
    const Place outside = place_;
    place_ = {place_.loops, false, false};
    set.branches.emplace_back();
    SHOAL_RETURN_IF_ERROR(ParseBlock("endset", &set.branches.back().body));
    place_ = outside;
    return Add(std::move(set), body);
  }

  // The value that filters of a block apply to: a variable whose name no template can write.
  Result<NodeId> AddBlockText() {
    SHOAL_ASSIGN_OR_RETURN(const NodeId id, words_.AddConstant(ChatValue()));
    Expression& node = tree_.expressions[static_cast<std::size_t>(id)];
    node.kind = ExpressionKind::kName;
    node.name = words_.Intern(kBlockText);
    return id;
  }

  Status ParseIf(std::vector<NodeId>* body) {
    Statement statement = At(StatementKind::kIf);
    bool is_else = false;
    while (true) {
      Branch branch;
      if (!is_else) {
        SHOAL_ASSIGN_OR_RETURN(branch.test, words_.ParseTuple(false));
      }
      SHOAL_RETURN_IF_ERROR(BeginBlock());
      const Names ends = is_else ? Names{"endif"} : Names{"elif", "else", "endif"};
      SHOAL_RETURN_IF_ERROR(ParseBody(ends, &branch.body));
      statement.branches.push_back(std::move(branch));
      if (words_.TakeName("endif")) break;
      is_else = words_.IsName("else");
      words_.Advance();
    }
    SHOAL_RETURN_IF_ERROR(EndTag());
    return Add(std::move(statement), body);
  }

  Status ParseFor(std::vector<NodeId>* body) {
    Statement loop = At(StatementKind::kFor);
    SHOAL_ASSIGN_OR_RETURN(loop.target, ParseTarget(false));
    if (!words_.TakeName("in")) return words_.Fail("'in' is expected, not " + words_.Describe());
    SHOAL_ASSIGN_OR_RETURN(loop.expression, words_.ParseTuple(false));
    if (words_.TakeName("if")) {
      SHOAL_ASSIGN_OR_RETURN(loop.condition, words_.ParseExpression());
    }
    if (words_.IsName("recursive")) return words_.Fail("a recursive loop is not supported");
    const Place outside = place_;
    place_ = {place_.loops + 1, false, place_.is_plain};
    SHOAL_RETURN_IF_ERROR(BeginBlock());
    loop.branches.resize(2);
    SHOAL_RETURN_IF_ERROR(ParseBody({"else", "endfor"}, &loop.branches[0].body));
    place_ = {outside.loops, false, outside.is_plain};
    if (words_.TakeName("else")) {
      SHOAL_RETURN_IF_ERROR(BeginBlock());
      SHOAL_RETURN_IF_ERROR(ParseBody({"endfor"}, &loop.branches[1].body));
    }
    place_ = outside;
    words_.Advance();
    SHOAL_RETURN_IF_ERROR(EndTag());
    return Add(std::move(loop), body);
  }

  Status ParseMacro(std::vector<NodeId>* body) {
    Statement statement = At(StatementKind::kMacro);
    if (!place_.is_top) return words_.Fail("a macro inside of a block is not supported");
    Macro macro;
    SHOAL_ASSIGN_OR_RETURN(const std::string name, words_.ExpectName());
    assigned_.insert(name);
    macro.name = words_.Intern(name);
    SHOAL_RETURN_IF_ERROR(words_.ExpectOperator("("));
    while (!words_.IsOperator(")")) {
      SHOAL_ASSIGN_OR_RETURN(const std::string parameter, words_.ExpectName());
      const bool optional = words_.TakeOperator("=");
      assigned_.insert(parameter);
      macro.parameters.push_back({words_.Intern(parameter), kNoNode});
      if (optional) {
        SHOAL_ASSIGN_OR_RETURN(macro.parameters.back().otherwise, words_.ParseExpression());
      } else if (macro.parameters.size() > 1 &&
                 macro.parameters[macro.parameters.size() - 2].otherwise != kNoNode) {
        return words_.Fail("a parameter without a default stands behind one with a default");
      }
      if (!words_.TakeOperator(",")) break;
    }
    SHOAL_RETURN_IF_ERROR(words_.ExpectOperator(")"));
    const Place outside = place_;
    place_ = {0, false, false};
    SHOAL_RETURN_IF_ERROR(ParseBlock("endmacro", &macro.body));
    place_ = outside;
    statement.macro = static_cast<std::int32_t>(tree_.macros.size());
    tree_.macros.push_back(std::move(macro));
    return Add(std::move(statement), body);
  }

  Status ParseGeneration(std::vector<NodeId>* body) {
    Statement statement = At(StatementKind::kGeneration);
    if (!place_.is_plain) {
      return words_.Fail(
          "the tag 'generation' in a macro, a block of set or itself is not supported");
    }
    const Place outside = place_;
    place_ = {0, false, false};
    statement.branches.emplace_back();
    SHOAL_RETURN_IF_ERROR(ParseBlock("endgeneration", &statement.branches.back().body));
    place_ = outside;
    tree_.marks_generation = true;
    return Add(std::move(statement), body);
  }

  Status ParseLeap(std::vector<NodeId>* body) {
    const bool is_break = words_.IsName("break");
    Statement leap = At(is_break ? StatementKind::kBreak : StatementKind::kContinue);
    if (place_.loops == 0) {
      return words_.Fail("the tag '" + words_.current().text + "' stands in no loop");
    }
    words_.Advance();
    SHOAL_RETURN_IF_ERROR(EndTag());
    return Add(std::move(leap), body);
  }

  Statement At(StatementKind kind) const {
    Statement statement;
    statement.kind = kind;
    statement.line = words_.current().line;
    return statement;
  }

  Status Add(Statement statement, std::vector<NodeId>* body) {
    if (tree_.statements.size() >= kTemplateNodesMax) {
      return TemplateError(statement.line, "the template is too large");
    }
    body->push_back(static_cast<NodeId>(tree_.statements.size()));
    tree_.statements.push_back(std::move(statement));
    return Status::Ok();
  }

  const std::vector<Token> tokens_;
  ParsedTemplate tree_;
  ExpressionParser words_;
  Place place_;
  std::int32_t level_ = 0;
  std::set<std::string> assigned_;  // names that something is assigned to
};

}  // namespace

Result<ParsedTemplate> ParseTemplate(std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(std::vector<Token> tokens, LexTemplate(text));
  return StatementParser(std::move(tokens)).Run();
}

}  // namespace shoal::dataset
