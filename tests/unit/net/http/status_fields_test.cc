#include "net/http/status_fields.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "common/file.h"
#include "net/http/status_page.h"
#include "net/http/status_writer.h"
#include "tests/support/temporary_folder.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<StatusField> AllFields() {
  std::vector<StatusField> fields(PeerStatusFields().begin(), PeerStatusFields().end());
  fields.insert(fields.end(), RunStatusFields().begin(), RunStatusFields().end());
  return fields;
}

std::string LastName(std::string_view path) {
  std::string name(path.substr(path.rfind('.') + 1));
  while (name.ends_with("[]")) name.resize(name.size() - 2);
  return name;
}

std::string TopName(std::string_view path) { return LastName(path.substr(0, path.find('.'))); }

bool HasWord(const std::string& text, const std::string& word) {
  return std::regex_search(text, std::regex("\\b" + word + "\\b"));
}

TEST(StatusFields, HaveHelpAndTheUnitOfTheirName) {
  const std::pair<const char*, FieldUnit> endings[] = {{"Bytes", FieldUnit::kBytes},
                                                       {"Ms", FieldUnit::kMilliseconds},
                                                       {"Bps", FieldUnit::kBitsPerSecond},
                                                       {"Seconds", FieldUnit::kSeconds}};
  for (const StatusField& field : AllFields()) {
    EXPECT_TRUE(std::string_view(field.help).ends_with(".")) << field.path;
    for (const auto& [ending, unit] : endings) {
      EXPECT_TRUE(!field.path.ends_with(ending) || field.unit == unit) << field.path;
    }
  }
}

TEST(StatusFields, MetricsOfOneNameHaveOneHelpAndBaseUnits) {
  for (const auto& table : {PeerStatusFields(), RunStatusFields()}) {
    std::map<std::string, std::string> helps;
    for (const StatusField& field : table) {
      for (const FieldMetric& metric : {field.metric, field.other_metric}) {
        if (metric.name == nullptr) continue;
        const std::string name = metric.name;
        const std::string help = metric.help != nullptr ? metric.help : field.help;
        EXPECT_EQ(helps.emplace(name, help).first->second, help) << field.path;
        EXPECT_TRUE(field.unit != FieldUnit::kBytes || name.find("_bytes") != std::string::npos)
            << name;
        EXPECT_EQ(field.unit == FieldUnit::kMilliseconds || field.unit == FieldUnit::kSeconds,
                  name.find("_seconds") != std::string::npos)
            << field.path;
      }
    }
  }
}

// A row of a table on a page.
struct PageRow {
  std::string about;  // its first cell, and that of the table's head
  std::string text;
};

std::vector<PageRow> RowsOf(const std::string& page) {
  std::vector<PageRow> rows;
  std::string head;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| ")) line = line.substr(2);
    const std::size_t end = line.find('|');
    if (end == std::string::npos) head.clear();
    if (end == std::string::npos || line.find("---") < 2) continue;
    const std::string cell = line.substr(0, end);
    if (head.empty()) head = cell;
    rows.push_back({head + " " + cell, line});
  }
  return rows;
}

bool Lists(const std::vector<PageRow>& rows, const StatusField& field) {
  return std::any_of(rows.begin(), rows.end(), [&](const PageRow& row) {
    return HasWord(row.about, TopName(field.path)) && HasWord(row.text, LastName(field.path));
  });
}

TEST(StatusFields, OperationsPageListsEachFieldAndMetric) {
  const Result<std::string> page =
      ReadFile(test_support::Environment("SHOAL_SOURCE_DIR") + "/docs/OPERATIONS.md", 1 << 20);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  const std::vector<PageRow> rows = RowsOf(*page);
  for (const StatusField& field : AllFields()) {
    EXPECT_TRUE(Lists(rows, field))
        << "the row of " << TopName(field.path) << " lacks " << field.path << ": " << field.help;
    for (const FieldMetric& metric : {field.metric, field.other_metric}) {
      if (metric.name == nullptr) continue;
      EXPECT_TRUE(HasWord(*page, metric.name))
          << "no row of metrics has " << metric.name << ", by which " << field.path << " is seen";
    }
  }
}

TEST(StatusFields, LabelsComeFromTheTable) {
  EXPECT_EQ(PeerLabel("links[].rttMs"), "rtt");
  EXPECT_EQ(PeerLabel("deltaStore.boundaries[].checksum"), "checksum");
  EXPECT_EQ(PeerLabel("work.time[].activity", "backward_input"), "input gradients");
  EXPECT_EQ(PeerLabel("work.time[].activity", "forward"), "forward");
  EXPECT_EQ(PeerLabel("state", "unheard of"), "unheard of");
  EXPECT_EQ(RunLabel("members[].peer"), "id");
  EXPECT_THAT(PeerLabelsJson(), HasSubstr(R"("links[].rttMs":"rtt")"));
  EXPECT_THAT(PeerLabelsJson(), HasSubstr(R"("work.time[].activity=exchange":)"));
  EXPECT_THAT(PeerLabelsJson(), HasSubstr(R"("work.time[].activity=forward":"forward")"));
  EXPECT_EQ(PeerLabel("links[].stalled"), "stalled");
  EXPECT_EQ(RunLabel("members[].position"), "position");
  EXPECT_TRUE(StatusScript().starts_with("\"use strict\";\nself.shoalLabels = {\""));
}

TEST(StatusFields, WordsOfTheViewsAreNoFields) {
  for (const ViewLabel& view : PeerViewLabels()) {
    for (const StatusField& field : PeerStatusFields()) EXPECT_NE(field.path, view.path);
  }
  for (const ViewLabel& view : RunViewLabels()) {
    for (const StatusField& field : RunStatusFields()) EXPECT_NE(field.path, view.path);
  }
}

TEST(StatusFields, ActivitiesComputeOrAwaitWhatTheirLabelSays) {
  std::string text;
  for (const ActivityLabel& activity : ActivityLabels()) {
    text += std::string(activity.awaited.empty() ? activity.name : activity.awaited) + "; ";
    EXPECT_TRUE(activity.label.ends_with(activity.awaited));
  }
  EXPECT_EQ(text,
            "forward; backward_input; backward_weights; optimizer; activations; gradients; "
            "its codec; its store; exchange of gradients; end of step; ");
}

// Those of one word may be ids and names of properties, too.
TEST(StatusFields, NoViewWritesALabelOfSeveralWordsItself) {
  const std::string source = test_support::Environment("SHOAL_SOURCE_DIR") + "/";
  std::vector<std::string> labels;
  for (const auto& [fields, views] : {std::pair(PeerStatusFields(), PeerViewLabels()),
                                      std::pair(RunStatusFields(), RunViewLabels())}) {
    for (const ViewLabel& view : views) labels.emplace_back(view.label);
    for (const StatusField& field : fields) {
      labels.emplace_back(field.label);
      for (const auto& [value, label] : ValuesOf(field)) labels.emplace_back(label);
    }
  }
  std::erase_if(labels, [](const std::string& label) {
    return label.find(' ') == std::string::npos || label == "wide delta";
  });
  EXPECT_GT(labels.size(), 15u);
  for (const char* path : {"net/http/status_page.js", "client/peer_view.cc", "client/swarm_view.cc",
                           "client/stage_time_view.cc", "bench/bench_stall.cc"}) {
    const Result<std::string> text = ReadFile(source + path, 1 << 20);
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    for (const std::string& label : labels) {
      EXPECT_THAT(*text, Not(HasSubstr("\"" + label + "\""))) << path;
      EXPECT_THAT(*text, Not(HasSubstr("\"  " + label + "\""))) << path;
    }
  }
}

// What the page asks for a label is a field, or a word of the views.
TEST(StatusFields, ThePageNamesFieldsOfTheTable) {
  const std::string script(StatusScript());
  const std::regex quoted(
      R"re("((?:links\[\]|limits|swarm|work|traffic|deltaStore)\.[A-Za-z\[\].]+)")re");
  int found = 0;
  for (std::sregex_iterator match(script.begin(), script.end(), quoted), end; match != end;
       ++match, ++found) {
    const std::string path = (*match)[1];
    bool known = false;
    for (const StatusField& field : PeerStatusFields()) known = known || field.path == path;
    for (const ViewLabel& view : PeerViewLabels()) known = known || view.path == path;
    EXPECT_TRUE(known || path.ends_with(".")) << path;
  }
  EXPECT_GT(found, 10);
}

TEST(StatusWriter, WritesInTheOrderOfTheTable) {
  // Not StatusList{StatusList{...}}: compilers differ in whether that copies or wraps.
  StatusList losses;
  losses.emplace_back(StatusList{1, 2.5});
  const StatusObject status = {
      {"name", "a\xff\"b"},
      {"version", "1"},
      {"stateReasons", std::vector<std::string>{"x", "y"}},
      {"swarm",
       StatusObject{{"losses", losses}, {"loss", std::numeric_limits<double>::quiet_NaN()}}},
      {"role", StatusValue()},
      {"links", StatusList{}}};
  EXPECT_EQ(StatusText(PeerStatusTree(), status),
            "{\"version\":\"1\",\"name\":\"a\xEF\xBF\xBD\\\"b\",\"stateReasons\":[\"x\",\"y\"],"
            "\"swarm\":{\"loss\":null,\"losses\":[[1,2.5]]},\"role\":null,\"links\":[]}");
  EXPECT_EQ(
      StatusText(RunStatusTree(),
                 {{"members", StatusList{StatusObject{{"status", ForeignJson{"{\"x\":1}"}}}}}}),
      R"({"members":[{"status":{"x":1}}]})");
  EXPECT_DEATH(StatusText(PeerStatusTree(), {{"nmae", "attic"}}), "");
}

TEST(StatusWriter, MetricsHaveTheLabelsOfTheirLists) {
  const auto link = [](const char* peer, double rtt_ms) {
    return StatusObject{{"peer", peer}, {"channel", "c"}, {"rttMs", rtt_ms}, {"queueBytes", 7u}};
  };
  const StatusObject end = {{"boundary", 2u}, {"side", "sender"}, {"mode", "full"}};
  const StatusObject bare = {{"boundary", 3u}, {"side", "sender"}, {"mode", StatusValue()}};
  MetricFamilies metrics;
  AddMetrics(PeerStatusTree(),
             {{"version", "1.2"},
              {"links", StatusList{link("0123456789", 20), link("abcdefghij", 1)}},
              {"boundaries", StatusList{end, bare}},
              {"deltaStore", StatusObject{{"corrupt", 4u}, {"trouble", "full"}}}},
             &metrics);
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("shoal_build_info{version=\"1.2\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE shoal_link_rtt_seconds gauge\n"
                              "shoal_link_rtt_seconds{peer=\"01234567\",channel=\"c\"} 0.02\n"
                              "shoal_link_rtt_seconds{peer=\"abcdefgh\",channel=\"c\"} 0.001\n"));
  EXPECT_THAT(text, HasSubstr("{boundary=\"2\",side=\"sender\",mode=\"full\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("{boundary=\"2\",side=\"sender\",mode=\"delta\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("boundary=\"3\""))) << "what is not known has no metric";
  EXPECT_THAT(text, HasSubstr("shoal_delta_store_lookups_total{result=\"corrupt\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("shoal_delta_store_dropped_total{reason=\"damage\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("shoal_delta_store_trouble 1\n"));
}

TEST(StatusWriter, FlagsAreMetricsToo) {
  const StatusObject there = {{"relay", "a:1"}, {"registered", true}};
  const StatusObject gone = {{"relay", "b:2"}, {"registered", false}};
  MetricFamilies metrics;
  AddMetrics(PeerStatusTree(), {{"relays", StatusList{there, gone}}}, &metrics);
  EXPECT_THAT(metrics.Text(), HasSubstr("shoal_relay_registered{relay=\"a:1\"} 1\n"
                                        "shoal_relay_registered{relay=\"b:2\"} 0\n"));
}

}  // namespace
}  // namespace shoal::net
