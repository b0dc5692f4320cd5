#include "dataset/chat/template_renderer.h"

#include <algorithm>
#include <memory>

#include "dataset/chat/python_values.h"
#include "dataset/chat/template_parser.h"

namespace shoal::dataset {
namespace {

const Statement& At(const ParsedTemplate& tree, NodeId id) {
  return tree.statements[static_cast<std::size_t>(id)];
}

}  // namespace

TemplateRenderer::TemplateRenderer(const ParsedTemplate* tree, const ChatLimits& limits,
                                   std::optional<std::chrono::sys_seconds> now)
    : tree_(*tree),
      work_(limits),
      now_(now),
      loop_name_(FindName("loop")),
      globals_(tree->names.size()) {
  for (std::size_t i = 0; i < std::size(kFunctionNames); ++i) {
    Define(kFunctionNames[i],
           ChatValue(ChatValue::Data(ChatFunction{static_cast<std::int32_t>(i)})));
  }
}

void TemplateRenderer::Define(std::string_view name, ChatValue value) {
  // A variable that the template does not name changes nothing.
  const std::int32_t id = FindName(name);
  if (id >= 0) globals_[static_cast<std::size_t>(id)] = std::move(value);
}

Result<std::string> TemplateRenderer::Run(std::vector<ByteRange>* generated) {
  generated_ = generated;
  const Status status = ExecuteAll(tree_.body);
  if (status.ok()) return std::move(text_);
  std::string where = tree_.name;
  if (error_line_ > 0) where += ", line " + std::to_string(error_line_);
  return status.WithContext(where);
}

// ---- statements ---------------------------------------------------------------------------------

Status TemplateRenderer::ExecuteAll(const std::vector<NodeId>& body) {
  for (const NodeId id : body) {
    const Statement& statement = At(tree_, id);
    const Status status = Execute(statement);
    if (!status.ok() && error_line_ == 0) error_line_ = statement.line;
    SHOAL_RETURN_IF_ERROR(status);
    if (leap_ != Leap::kNone) break;
  }
  return Status::Ok();
}

Status TemplateRenderer::Execute(const Statement& statement) {
  SHOAL_RETURN_IF_ERROR(work_.Step());
  if (depth_ >= kRenderDepthMax) return ResourceExhausted("calls and tags nest too deep");
  ++depth_;
  const Status status = ExecuteIn(statement);
  --depth_;
  return status;
}

Status TemplateRenderer::ExecuteIn(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::kText: return Write(statement.text);
    case StatementKind::kPrint: return Print(statement);
    case StatementKind::kSet: return Set(statement);
    case StatementKind::kSetBlock: return SetBlock(statement);
    case StatementKind::kFor: return For(statement);
    case StatementKind::kIf: return If(statement);
    case StatementKind::kMacro:
      SetVariable(tree_.macros[static_cast<std::size_t>(statement.macro)].name,
                  ChatValue(ChatValue::Data(ChatMacro{statement.macro})));
      return Status::Ok();
    case StatementKind::kGeneration: return Generation(statement);
    case StatementKind::kBreak: leap_ = Leap::kBreak; return Status::Ok();
    case StatementKind::kContinue: leap_ = Leap::kContinue; return Status::Ok();
  }
  return Status::Ok();
}

Status TemplateRenderer::Write(std::string_view text) {
  SHOAL_RETURN_IF_ERROR(work_.Make(text.size()));
  const std::size_t most = work_.limits().text_bytes;
  if (text.size() > most - std::min(most, out_->size())) {
    return ResourceExhausted("the text has more than " + std::to_string(most) + " bytes");
  }
  *out_ += text;
  return Status::Ok();
}

Status TemplateRenderer::Print(const Statement& statement) {
  SHOAL_ASSIGN_OR_RETURN(const ChatValue value, Evaluate(statement.expression));
  if (const std::string* text = value.string()) return Write(*text);
  SHOAL_ASSIGN_OR_RETURN(const std::string text, TextOf(value, &work_));
  return Write(text);
}

Status TemplateRenderer::Set(const Statement& statement) {
  SHOAL_ASSIGN_OR_RETURN(const ChatValue value, Evaluate(statement.expression));
  return Assign(statement.target, value);
}

Status TemplateRenderer::SetBlock(const Statement& statement) {
  std::string text;
  std::string* const outside_text = out_;
  out_ = &text;
  const Scope outside = EnterScope();
  SHOAL_RETURN_IF_ERROR(ExecuteAll(statement.branches[0].body));
  out_ = outside_text;
  SetVariable(FindName(kBlockText), ChatValue(std::move(text)));
  SHOAL_ASSIGN_OR_RETURN(const ChatValue value, Evaluate(statement.expression));
  LeaveScope(outside);
  if (leap_ != Leap::kNone) return Status::Ok();
  return Assign(statement.target, value);
}

Status TemplateRenderer::Assign(const Target& target, const ChatValue& value) {
  if (target.attribute >= 0) {
    const ChatValue owner = Variable(target.names[0]);
    const ChatNamespace* space = owner.As<ChatNamespace>();
    if (space == nullptr) {
      return FailedPrecondition("'" + std::string(NameOf(target.names[0])) + "' is no namespace");
    }
    Attributes& attributes = namespaces_[static_cast<std::size_t>(space->index)];
    constexpr std::size_t kAttributesPerStep = 16;
    SHOAL_RETURN_IF_ERROR(work_.Step(1 + attributes.size() / kAttributesPerStep));
    const std::string& name = tree_.names[static_cast<std::size_t>(target.attribute)];
    for (auto& [each, old] : attributes) {
      if (each != name) continue;
      old = value;
      return Status::Ok();
    }
    attributes.emplace_back(name, value);
    return Status::Ok();
  }
  if (!target.unpacks) {
    SetVariable(target.names[0], value);
    return Status::Ok();
  }
  SHOAL_RETURN_IF_ERROR(CheckDefined(value));
  SHOAL_ASSIGN_OR_RETURN(std::vector<ChatValue> items, Iterate(value, &work_));
  if (items.size() != target.names.size()) {
    return FailedPrecondition(std::to_string(items.size()) + " values for " +
                              std::to_string(target.names.size()) + " names");
  }
  for (std::size_t i = 0; i < items.size(); ++i) SetVariable(target.names[i], std::move(items[i]));
  return Status::Ok();
}

Status TemplateRenderer::If(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (branch.test != kNoNode) {
      SHOAL_ASSIGN_OR_RETURN(const ChatValue test, Evaluate(branch.test));
      if (!IsTrue(test)) continue;
    }
    return ExecuteAll(branch.body);
  }
  return Status::Ok();
}

Result<std::vector<ChatValue>> TemplateRenderer::FilterItems(const Statement& statement,
                                                             std::vector<ChatValue> items) {
  std::vector<ChatValue> kept;
  for (ChatValue& item : items) {
    SHOAL_RETURN_IF_ERROR(work_.Step());
    const Scope outside = EnterScope();
    SHOAL_RETURN_IF_ERROR(Assign(statement.target, item));
    SHOAL_ASSIGN_OR_RETURN(const ChatValue keeps, Evaluate(statement.condition));
    LeaveScope(outside);
    if (IsTrue(keeps)) kept.push_back(std::move(item));
  }
  return kept;
}

Status TemplateRenderer::For(const Statement& statement) {
  SHOAL_ASSIGN_OR_RETURN(const ChatValue over, Evaluate(statement.expression));
  SHOAL_ASSIGN_OR_RETURN(std::vector<ChatValue> items, Iterate(over, &work_));
  if (statement.condition != kNoNode) {
    SHOAL_ASSIGN_OR_RETURN(items, FilterItems(statement, std::move(items)));
  }
  if (!items.empty()) return ForBody(statement, std::move(items));
  const Scope outside = EnterScope();
  SHOAL_RETURN_IF_ERROR(ExecuteAll(statement.branches[1].body));
  LeaveScope(outside);
  return Status::Ok();
}

Status TemplateRenderer::ForBody(const Statement& statement, std::vector<ChatValue> items) {
  const auto loop = std::make_shared<ChatLoop>();
  for (const ChatValue& item : items) loop->depth = std::max(loop->depth, item.depth() + 1);
  loop->items = std::move(items);
  for (; loop->index < loop->items.size(); ++loop->index) {
    SHOAL_RETURN_IF_ERROR(work_.Step());
    const Scope outside = EnterScope();
    if (loop_name_ >= 0) {
      SetVariable(loop_name_, ChatValue(ChatValue::Data(std::shared_ptr<const ChatLoop>(loop))));
    }
    SHOAL_RETURN_IF_ERROR(Assign(statement.target, loop->items[loop->index]));
    SHOAL_RETURN_IF_ERROR(ExecuteAll(statement.branches[0].body));
    LeaveScope(outside);
    const Leap leap = std::exchange(leap_, Leap::kNone);
    if (leap == Leap::kBreak) break;
  }
  return Status::Ok();
}

Status TemplateRenderer::Generation(const Statement& statement) {
  const std::size_t begin = out_->size();
  const Scope outside = EnterScope();
  SHOAL_RETURN_IF_ERROR(ExecuteAll(statement.branches[0].body));
  LeaveScope(outside);
  if (generated_ != nullptr && out_->size() > begin) generated_->push_back({begin, out_->size()});
  return Status::Ok();
}

// ---- variables ----------------------------------------------------------------------------------

TemplateRenderer::Scope TemplateRenderer::EnterScope() {
  return std::exchange(scope_, Scope{locals_.size(), scope_.frame_base, false});
}

void TemplateRenderer::LeaveScope(const Scope& outside) {
  locals_.erase(locals_.begin() + static_cast<std::ptrdiff_t>(scope_.begin), locals_.end());
  scope_ = outside;
}

void TemplateRenderer::SetVariable(std::int32_t name, ChatValue value) {
  if (scope_.is_top) {
    globals_[static_cast<std::size_t>(name)] = std::move(value);
    return;
  }
  for (std::size_t i = scope_.begin; i < locals_.size(); ++i) {
    if (locals_[i].name != name) continue;
    locals_[i].value = std::move(value);
    return;
  }
  locals_.push_back({name, std::move(value)});
}

ChatValue TemplateRenderer::Variable(std::int32_t name) const {
  for (std::size_t i = locals_.size(); i > scope_.frame_base; --i) {
    if (locals_[i - 1].name == name) return locals_[i - 1].value;
  }
  const auto& global = globals_[static_cast<std::size_t>(name)];
  return global ? *global : ChatValue::Undefined(name);
}

std::string_view TemplateRenderer::NameOf(std::int32_t name) const {
  return name < 0 ? std::string_view("a value") : tree_.names[static_cast<std::size_t>(name)];
}

std::int32_t TemplateRenderer::FindName(std::string_view name) const {
  const auto found = std::find(tree_.names.begin(), tree_.names.end(), name);
  return found == tree_.names.end() ? -1 : static_cast<std::int32_t>(found - tree_.names.begin());
}

Status TemplateRenderer::CheckDefined(const ChatValue& value) const {
  const ChatUndefined* undefined = value.As<ChatUndefined>();
  return undefined == nullptr ? Status::Ok() : UndefinedError(NameOf(undefined->name));
}

}  // namespace shoal::dataset
