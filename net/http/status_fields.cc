#include "net/http/status_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/status.h"

namespace shoal::net {
namespace {

// Cuts what is before the first `mark` off `*text`; all of it where there is none.
std::string_view CutBefore(std::string_view* text, std::string_view mark) {
  const std::size_t at = text->find(mark);
  const std::string_view before = text->substr(0, at);
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + mark.size());
  return before;
}

// The name of one part of a path, and how many lists are around it.
std::pair<std::string_view, std::size_t> NameAndLists(std::string_view part) {
  std::size_t lists = 0;
  for (; part.ends_with("[]"); ++lists) part.remove_suffix(2);
  return {part, lists};
}

FieldNode MakeTree(std::span<const StatusField> fields) {
  FieldNode root;
  for (const StatusField& field : fields) {
    FieldNode* object = &root;
    std::string_view path = field.path;
    for (;;) {
      const auto [name, lists] = NameAndLists(CutBefore(&path, "."));
      if (path.empty()) {
        SHOAL_CHECK(object->Find(name) == nullptr);
        object->fields.push_back({name, field.kind, lists, &field});
        break;
      }
      object = const_cast<FieldNode*>(object->Find(name));
      SHOAL_CHECK(object != nullptr && object->kind == FieldKind::kObject);
    }
  }
  return root;
}

std::string LabelOf(std::span<const StatusField> fields, std::span<const ViewLabel> views,
                    std::string_view path, std::string_view value) {
  const auto field =
      std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.path == path; });
  if (field != fields.end() && !value.empty()) {
    for (const auto& [name, label] : ValuesOf(*field)) {
      if (name == value) return std::string(label);
    }
  }
  if (!value.empty()) return std::string(value);
  for (const ViewLabel& view : views) {
    if (view.path == path) return std::string(view.label);
  }
  if (field != fields.end() && !field->label.empty()) return std::string(field->label);
  const std::string_view last = path.substr(path.rfind('.') + 1);
  return std::string(NameAndLists(last).first);
}

}  // namespace

const FieldNode* FieldNode::Find(std::string_view field_name) const {
  for (const FieldNode& node : fields) {
    if (node.name == field_name) return &node;
  }
  return nullptr;
}

const FieldNode& PeerStatusTree() {
  static const FieldNode tree = MakeTree(PeerStatusFields());
  return tree;
}

const FieldNode& RunStatusTree() {
  static const FieldNode tree = MakeTree(RunStatusFields());
  return tree;
}

std::vector<std::pair<std::string_view, std::string_view>> ValuesOf(const StatusField& field) {
  std::vector<std::pair<std::string_view, std::string_view>> values;
  for (std::string_view rest = field.values; !rest.empty();) {
    std::string_view label = CutBefore(&rest, "; ");
    const std::string_view value = CutBefore(&label, "=");
    values.emplace_back(value, label.empty() ? value : label);
  }
  return values;
}

std::string PeerLabel(std::string_view path, std::string_view value) {
  return LabelOf(PeerStatusFields(), PeerViewLabels(), path, value);
}

std::string RunLabel(std::string_view path, std::string_view value) {
  return LabelOf(RunStatusFields(), RunViewLabels(), path, value);
}

std::string PeerLabelsJson() {
  nlohmann::ordered_json labels = nlohmann::ordered_json::object();
  for (const StatusField& field : PeerStatusFields()) {
    const std::string path(field.path);
    if (!field.label.empty()) labels[path] = field.label;
    for (const auto& [value, label] : ValuesOf(field)) {
      labels[path + "=" + std::string(value)] = label;
    }
  }
  for (const ViewLabel& view : PeerViewLabels()) labels[std::string(view.path)] = view.label;
  return labels.dump();
}

const std::vector<ActivityLabel>& ActivityLabels() {
  static const auto activities = [] {
    const FieldNode* const field = PeerStatusTree().Find("work")->Find("time")->Find("activity");
    const std::string waits = PeerLabel("work.waitsFor") + " ";
    std::vector<ActivityLabel> labels;
    for (const auto& [name, label] : ValuesOf(*field->field)) {
      const bool computes = !label.starts_with(waits);
      labels.push_back({name, label, computes ? "" : label.substr(waits.size())});
    }
    return labels;
  }();
  return activities;
}

}  // namespace shoal::net
