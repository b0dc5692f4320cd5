// The tables of status fields: one row says what a field of GET /api/v1/status is called, holds and
// means, which metric shows it, and what people read in its place. JSON (status_writer.h), metrics,
// the scheduler's check of what peers say, the live page and the CLI follow these rows, and a test
// holds docs/OPERATIONS.md against them. Constant; thread: any.

#ifndef SHOAL_NET_HTTP_STATUS_FIELDS_H_
#define SHOAL_NET_HTTP_STATUS_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shoal::net {

// kForeign: JSON that somebody else wrote and that was checked before.
enum class FieldKind : std::uint8_t { kObject, kText, kNumber, kFlag, kForeign };
enum class FieldUnit : std::uint8_t { kNone, kBytes, kMilliseconds, kSeconds, kBitsPerSecond };

// A metric that a field fills, in base units; a counter if its name ends in _total. Null fields
// have none. A flag is 1 or 0. A text fills a metric ..._info as a label; one of listed values as 1
// among 0; else the metric is 1 while there is a text.
struct FieldMetric {
  const char* name = nullptr;
  std::string_view labels = {};  // constant ones, "kind=activation", behind those of the lists
  const char* help = nullptr;    // of a metric that several fields fill; else the field's
};

struct StatusField {
  // Objects separated by dots, "[]" behind a list: "links[].rttMs". Objects come before what is in
  // them; the order is that of the JSON.
  std::string_view path;
  FieldKind kind = FieldKind::kObject;
  FieldUnit unit = FieldUnit::kNone;
  const char* help = "";  // one sentence that stands alone
  std::string_view label = {};
  FieldMetric metric = {}, other_metric = {};
  std::string_view item_labels = {};  // of a list: "peer:8 channel", fields that tell items apart
  std::string_view values = {};       // all that a text may be: "delta; wide delta"; "x=label"

  constexpr StatusField Label(std::string_view text) const;
  constexpr StatusField Metric(const char* name, std::string_view labels = {},
                               const char* family_help = nullptr) const;
  constexpr StatusField ItemLabels(std::string_view names) const;
  constexpr StatusField Values(std::string_view names) const;
};

constexpr StatusField StatusField::Label(std::string_view text) const {
  StatusField field = *this;
  field.label = text;
  return field;
}
constexpr StatusField StatusField::Metric(const char* name, std::string_view labels,
                                          const char* family_help) const {
  StatusField field = *this;
  (metric.name == nullptr ? field.metric : field.other_metric) = {name, labels, family_help};
  return field;
}
constexpr StatusField StatusField::ItemLabels(std::string_view names) const {
  StatusField field = *this;
  field.item_labels = names;
  return field;
}
constexpr StatusField StatusField::Values(std::string_view names) const {
  StatusField field = *this;
  field.values = names;
  return field;
}

// What a table's rows begin with.
namespace field_rows {

constexpr StatusField Object(std::string_view path, const char* help) {
  return {.path = path, .help = help};
}
constexpr StatusField Text(std::string_view path, const char* help) {
  return {.path = path, .kind = FieldKind::kText, .help = help};
}
constexpr StatusField Flag(std::string_view path, const char* help) {
  return {.path = path, .kind = FieldKind::kFlag, .help = help};
}
constexpr StatusField Number(std::string_view path, FieldUnit unit, const char* help) {
  return {.path = path, .kind = FieldKind::kNumber, .unit = unit, .help = help};
}

}  // namespace field_rows

// A table as a tree: an object's fields under it. The root is the whole status.
struct FieldNode {
  std::string_view name;
  FieldKind kind = FieldKind::kObject;
  std::size_t lists = 0;               // nested around each value
  const StatusField* field = nullptr;  // null: the root
  std::vector<FieldNode> fields = {};

  const FieldNode* Find(std::string_view field_name) const;  // null: there is none
};

// A word of the views that no field has: for what they make of several.
struct ViewLabel {
  std::string_view path;  // as of a field
  std::string_view label;
};

std::span<const StatusField> PeerStatusFields();  // of shoald
std::span<const StatusField> RunStatusFields();   // of shoal-scheduler
std::span<const ViewLabel> PeerViewLabels();
std::span<const ViewLabel> RunViewLabels();
const FieldNode& PeerStatusTree();
const FieldNode& RunStatusTree();

// (value, label) of each value that a text may be; the label is the value where none is given.
std::vector<std::pair<std::string_view, std::string_view>> ValuesOf(const StatusField& field);

// What people read for a field, for one of the values of a text, or for a word of the views.
// Without a label in the tables: the value, or the last name of the path.
std::string PeerLabel(std::string_view path, std::string_view value = {});
std::string RunLabel(std::string_view path, std::string_view value = {});
// All labels of peers as a JSON object: by path, and by "path=value" for every value, in order.
std::string PeerLabelsJson();

// What the compute of a stage does or waits for: the values of work.time[].activity, in order.
struct ActivityLabel {
  std::string_view name, label;
  std::string_view awaited;  // the label behind "waits for"; empty: it computes
};
const std::vector<ActivityLabel>& ActivityLabels();

}  // namespace shoal::net

#endif  // SHOAL_NET_HTTP_STATUS_FIELDS_H_
