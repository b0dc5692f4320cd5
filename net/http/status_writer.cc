#include "net/http/status_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "common/status.h"

namespace shoal::net {
namespace {

using Json = nlohmann::ordered_json;
using Labels = MetricFamilies::Labels;

const StatusValue* FindValue(const StatusObject& object, std::string_view name) {
  for (const StatusMember& member : object) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

std::string TextJson(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

class JsonWriter {
 public:
  void Write(const FieldNode& node, const StatusValue& value, std::size_t lists) {
    if (const auto* list = std::get_if<StatusList>(&value.value)) {
      SHOAL_CHECK(lists > 0);
      text_ += '[';
      const char* comma = "";
      for (const StatusValue& item : *list) {
        text_ += std::exchange(comma, ",");
        Write(node, item, lists - 1);
      }
      text_ += ']';
    } else if (const auto* object = std::get_if<StatusObject>(&value.value)) {
      SHOAL_CHECK(lists == 0 && node.kind == FieldKind::kObject);
      WriteObject(node, *object);
    } else {
      WriteLeaf(value);
    }
  }

  void WriteObject(const FieldNode& node, const StatusObject& object) {
    std::size_t written = 0;
    text_ += '{';
    for (const FieldNode& field : node.fields) {
      const StatusValue* const value = FindValue(object, field.name);
      if (value == nullptr) continue;
      text_ += written++ > 0 ? ",\"" : "\"";
      text_.append(field.name).append("\":");
      Write(field, *value, field.lists);
    }
    text_ += '}';
    SHOAL_CHECK(written == object.size());  // each has a row
  }

  std::string& text() { return text_; }

 private:
  void WriteLeaf(const StatusValue& value) {
    if (const auto* text = std::get_if<std::string>(&value.value)) {
      text_ += TextJson(*text);
    } else if (const auto* flag = std::get_if<bool>(&value.value)) {
      text_ += *flag ? "true" : "false";
    } else if (const auto* whole = std::get_if<std::int64_t>(&value.value)) {
      text_ += std::to_string(*whole);
    } else if (const auto* count = std::get_if<std::uint64_t>(&value.value)) {
      text_ += std::to_string(*count);
    } else if (const auto* number = std::get_if<double>(&value.value)) {
      text_ += Json(*number).dump();
    } else if (const auto* json = std::get_if<ForeignJson>(&value.value)) {
      text_ += json->text;
    } else {
      text_ += "null";
    }
  }

  std::string text_;
};

// "kind=activation" and the like, behind `labels`.
Labels With(Labels labels, std::string_view more) {
  const std::size_t sign = more.find('=');
  if (sign != std::string_view::npos) {
    labels.emplace_back(more.substr(0, sign), more.substr(sign + 1));
  }
  return labels;
}

std::string LabelText(const StatusValue* value) {
  if (value == nullptr) return "";
  if (const auto* text = std::get_if<std::string>(&value->value)) return *text;
  if (const auto* count = std::get_if<std::uint64_t>(&value->value)) return std::to_string(*count);
  return "";
}

// "peer:8 channel": the first 8 characters of the field peer, and all of channel.
Labels ItemLabels(std::string_view names, const StatusObject& item, Labels labels) {
  while (!names.empty()) {
    std::string_view name = names.substr(0, names.find(' '));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    const std::size_t colon = name.find(':');
    const std::size_t length = colon == std::string_view::npos
                                   ? std::string::npos
                                   : std::stoul(std::string(name.substr(colon + 1)));
    name = name.substr(0, colon);
    labels.emplace_back(name, LabelText(FindValue(item, name)).substr(0, length));
  }
  return labels;
}

class MetricWriter {
 public:
  explicit MetricWriter(MetricFamilies* out) : out_(out) {}

  void Visit(const FieldNode& node, const StatusValue& value, const Labels& labels) {
    if (const auto* list = std::get_if<StatusList>(&value.value)) {
      // Items that no label tells apart would be one series.
      if (node.field->item_labels.empty()) return;
      for (const StatusValue& item : *list) {
        const auto* object = std::get_if<StatusObject>(&item.value);
        if (object != nullptr) {
          VisitFields(node, *object, ItemLabels(node.field->item_labels, *object, labels));
        }
      }
    } else if (const auto* object = std::get_if<StatusObject>(&value.value)) {
      VisitFields(node, *object, labels);
    } else {
      Add(node, node.field->metric, value, labels);
      Add(node, node.field->other_metric, value, labels);
    }
  }

  void VisitFields(const FieldNode& node, const StatusObject& object, const Labels& labels) {
    for (const FieldNode& field : node.fields) {
      if (const StatusValue* const value = FindValue(object, field.name)) {
        Visit(field, *value, labels);
      }
    }
  }

 private:
  void Add(const FieldNode& node, const FieldMetric& metric, const StatusValue& value,
           const Labels& list_labels) {
    if (metric.name == nullptr) return;
    const Labels labels = With(list_labels, metric.labels);
    const StatusField& field = *node.field;
    const std::string_view name = metric.name;
    if (const auto* text = std::get_if<std::string>(&value.value)) {
      if (name.ends_with("_info")) {
        Put(field, metric, 1, With(labels, std::string(node.name) + "=" + *text));
      } else if (field.values.empty()) {
        Put(field, metric, text->empty() ? 0 : 1, labels);
      } else {
        for (const auto& [one, label] : ValuesOf(field)) {
          Put(field, metric, *text == one ? 1 : 0,
              With(labels, std::string(node.name) + "=" + std::string(one)));
        }
      }
    } else if (const auto* flag = std::get_if<bool>(&value.value)) {
      Put(field, metric, *flag ? 1 : 0, labels);
    } else if (const auto* count = std::get_if<std::uint64_t>(&value.value)) {
      Put(field, metric, static_cast<double>(*count), labels);
    } else if (const auto* number = std::get_if<double>(&value.value)) {
      Put(field, metric, *number, labels);
    }
  }

  // Metrics are in base units.
  void Put(const StatusField& field, const FieldMetric& metric, double value,
           const Labels& labels) {
    const char* const help = metric.help != nullptr ? metric.help : field.help;
    if (field.unit == FieldUnit::kMilliseconds) value /= 1e3;
    if (std::string_view(metric.name).ends_with("_total")) {
      out_->Counter(metric.name, help, value, labels);
    } else {
      out_->Gauge(metric.name, help, value, labels);
    }
  }

  MetricFamilies* const out_;
};

}  // namespace

std::string StatusText(const FieldNode& tree, const StatusObject& status) {
  JsonWriter writer;
  writer.WriteObject(tree, status);
  return std::move(writer.text());
}

void AddMetrics(const FieldNode& tree, const StatusObject& status, MetricFamilies* out) {
  MetricWriter(out).VisitFields(tree, status, {});
}

}  // namespace shoal::net
