#include "bench/bench_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace shoal::bench {
namespace {

BenchOptions Options() {
  BenchArguments arguments;
  arguments.stages = 3;
  arguments.micro_batches = 4;
  arguments.shape = "2x8x16";
  arguments.steps = 2;
  arguments.epoch_steps = 1;
  return *ReadBenchOptions(arguments);
}

const BenchCase kCase{BitsPerSecond{100'000'000}, {"aqsgd:bits=3", "direct:bits=6"}, "1f1b"};

// Samples at the first step's end, and around two steps of 2 s each.
struct Samples {
  BenchSample first, before, after;
};

Samples MakeSamples() {
  Samples s;
  // 2 boundaries x 4 micro-batches x 1,024 bytes raw each.
  s.first.forward_raw = 8 * 1024 + 1024;  // one of the second pass, too
  s.first.forward_wire = 8 * 500 + 100;
  s.first.last_step_seconds = {5};
  s.before = s.first;
  s.before.time_s = 100;
  s.before.cpu.codec = 1;
  s.before.machine_busy_s = 50;
  s.after = s.before;
  s.after.time_s = 104;
  s.after.forward_raw += 16 * 1024;
  s.after.forward_wire += 16 * 100;
  s.after.backward_raw += 16 * 1024;
  s.after.backward_wire += 16 * 200;
  s.after.link_wire += 16 * 330;
  s.after.cpu.codec += 0.8;
  s.after.cpu.values += 0.4;
  s.after.delay_cpu_s += 0.16;
  s.after.machine_busy_s += 4;
  s.after.cpu_wait_s += 0.6;
  s.before.time = {{"wait_input", 300}};
  s.after.time = {{"wait_input", 1500}, {"wait_store", 600}};
  s.after.last_step_seconds = {5, 3, 1.5, 2.5};
  s.after.in_flight = {3, 2, 1};
  return s;
}

BenchRow Row() {
  const Samples s = MakeSamples();
  BenchRow row = MakeBenchRow(Options(), kCase, s.first, s.before, s.after, 2);
  row.shaped_by = "tbf";
  row.bound_sequences_per_second = 5;
  row.line_bound_sequences_per_second = 4.1;
  return row;
}

TEST(BenchReport, RowFromSamples) {
  const BenchRow row = Row();
  EXPECT_DOUBLE_EQ(row.step_seconds, 2);
  EXPECT_DOUBLE_EQ(row.sequences_per_second, 4);  // 4 micro-batches of 2 rows
  EXPECT_DOUBLE_EQ(row.wire_bytes_forward, 100);
  EXPECT_DOUBLE_EQ(row.wire_bytes_backward, 200);
  EXPECT_DOUBLE_EQ(row.first_visit_wire_bytes_forward, 500);
  EXPECT_DOUBLE_EQ(row.first_visit_step_seconds, 5);
  EXPECT_NEAR(row.link_overhead, 0.1, 1e-9);
  EXPECT_NEAR(row.Time({"wait_input"}), 0.1, 1e-9);  // 1.2 s of 3 peers x 4 s
  EXPECT_NEAR(row.Time({"wait_input", "wait_store", "none"}), 0.15, 1e-9);
  EXPECT_NEAR(row.cpu.codec, 0.1, 1e-9);  // 8 micro-batches
  EXPECT_NEAR(row.cpu.product(), 0.1, 1e-9);
  EXPECT_NEAR(row.cpu.values, 0.05, 1e-9);
  EXPECT_NEAR(row.machine_busy, 0.5, 1e-9);
  EXPECT_NEAR(row.cpu_wait, 0.05, 1e-9);
  EXPECT_NEAR(row.delay_cpu_seconds, 0.02, 1e-9);
  EXPECT_NEAR(row.others_busy, 0.5 - 1.36 / 8, 1e-9);
  EXPECT_FALSE(row.cpu_limited());
}

// The same samples are a swarm in slow motion: its clock is converted, parts of the time and CPU
// seconds are what they are.
TEST(BenchReport, SlowMotionIsConvertedBack) {
  const Samples s = MakeSamples();
  BenchOptions options = Options();
  options.dilation = 4;
  const BenchRow row = MakeBenchRow(options, kCase, s.first, s.before, s.after, 2);
  const BenchRow plain = Row();
  EXPECT_DOUBLE_EQ(row.step_seconds, 0.5);
  EXPECT_DOUBLE_EQ(row.first_visit_step_seconds, 1.25);
  EXPECT_DOUBLE_EQ(row.sequences_per_second, 16);
  EXPECT_DOUBLE_EQ(row.wire_bytes_forward, plain.wire_bytes_forward);
  EXPECT_DOUBLE_EQ(row.cpu.codec, plain.cpu.codec);
  EXPECT_DOUBLE_EQ(row.cpu_wait, plain.cpu_wait);
  EXPECT_DOUBLE_EQ(row.machine_busy, plain.machine_busy);
  EXPECT_EQ(row.time, plain.time);
}

TEST(BenchReport, SaysHowManyCoresAPeerHas) {
  BenchReport report;
  report.options = Options();
  report.cpus = 2;
  auto json = nlohmann::json::parse(FormatBenchJson(report));
  EXPECT_EQ(json["dilation"], 1);
  EXPECT_DOUBLE_EQ(json["machine"]["coresPerPeer"].get<double>(), 2.0 / 3);
  EXPECT_EQ(FormatBenchTable(report).find("slow motion"), std::string::npos);
  report.options.dilation = 3;
  json = nlohmann::json::parse(FormatBenchJson(report));
  EXPECT_EQ(json["dilation"], 3);
  EXPECT_EQ(json["machine"]["coresPerPeer"], 2);
  EXPECT_NE(FormatBenchTable(report).find("in slow motion, 3 times: each peer has as much of this "
                                          "machine as of 2 cores"),
            std::string::npos);
}

TEST(BenchReport, CpuIsTheLimitWhenCoresAreBusyAndTheBoundIsMissed) {
  BenchRow row = Row();
  row.cpu_wait = 0.3;
  EXPECT_TRUE(row.cpu_limited());
  row.bound_sequences_per_second = 4.01;
  EXPECT_FALSE(row.cpu_limited());
  row.bound_sequences_per_second = 0;
  EXPECT_TRUE(row.cpu_limited());
}

BenchReport Report() {
  BenchReport report;
  report.options = Options();
  report.cpus = 2;
  report.reference_sequences_per_second = 8;
  report.reference_simulated = true;
  report.rows = {Row(), Row()};
  report.rows[1].bench_case.link = BitsPerSecond{0};
  report.rows[1].bench_case.schedule = "zero-bubble";
  report.rows[1].cpu_wait = 0.5;
  return report;
}

TEST(BenchReport, SlowMotionIsSuggestedWhereCoresAreTheLimit) {
  const std::string hint = "hint  --dilation 2 does the same in slow motion";
  BenchReport report = Report();  // three stages on two cores, one row that they limit
  EXPECT_NE(FormatBenchTable(report).find(hint), std::string::npos);
  report.options.dilation = 2;
  EXPECT_EQ(FormatBenchTable(report).find("hint"), std::string::npos);
  report = Report();
  report.cpus = 4;
  EXPECT_EQ(FormatBenchTable(report).find("hint"), std::string::npos);
  report = Report();
  report.rows.pop_back();
  EXPECT_EQ(FormatBenchTable(report).find("hint"), std::string::npos);
}

TEST(BenchReport, JsonHasTheFields) {
  const auto json = nlohmann::json::parse(FormatBenchJson(Report()));
  EXPECT_EQ(json["schemaVersion"], 1);
  EXPECT_EQ(json["machine"]["cpus"], 2);
  EXPECT_EQ(json["shape"]["hidden"], 16);
  ASSERT_EQ(json["rows"].size(), 2u);
  const auto& row = json["rows"][0];
  EXPECT_EQ(row["schedule"], "1f1b");
  EXPECT_EQ(row["linkBps"], 100'000'000);
  EXPECT_EQ(row["rttMs"], 0);
  EXPECT_EQ(row["forward"], "aqsgd:bits=3");
  EXPECT_EQ(row["backward"], "direct:bits=6");
  EXPECT_EQ(row["sequencesPerSecond"], 4);
  EXPECT_EQ(row["fractionOfUnlimitedRaw"], 0.5);
  EXPECT_EQ(row["boundSequencesPerSecond"], 5);
  EXPECT_EQ(row["fractionOfBound"], 0.8);
  EXPECT_EQ(row["lineBoundSequencesPerSecond"], 4.1);
  EXPECT_NEAR(row["fractionOfLineBound"], 4 / 4.1, 1e-12);
  EXPECT_EQ(row["wireBytesForward"], 100);
  EXPECT_EQ(row["wireBytesBackward"], 200);
  EXPECT_NEAR(row["cpuSecondsPerMicroBatch"], 0.1, 1e-9);
  EXPECT_NEAR(row["delayCpuSeconds"], 0.02, 1e-9);
  EXPECT_EQ(row["shapedBy"], "tbf");
}

TEST(BenchReport, TableNamesRowsAndWarnsOncePerLimitedRow) {
  const std::string table = FormatBenchTable(Report());
  EXPECT_NE(table.find("100 Mbit/s"), std::string::npos);
  EXPECT_NE(table.find("zero-bubble"), std::string::npos);
  EXPECT_NE(table.find("80.0%"), std::string::npos);  // of the bound
  EXPECT_NE(table.find("97.6%"), std::string::npos);  // of the line's
  const std::string warning = "CPU, not the network, is the limit";
  const std::size_t found = table.find(warning);
  ASSERT_NE(found, std::string::npos);
  EXPECT_EQ(table.find(warning, found + 1), std::string::npos);
}

TEST(BenchReport, PlotHasALineAndABoundPerSeries) {
  BenchReport report = Report();
  report.rows[0].bench_case.codecs.forward = "a<b&\"c\"";
  const std::string svg = FormatBenchPlot(report);
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  EXPECT_EQ(svg.find("a<b"), std::string::npos);
  EXPECT_NE(svg.find("a&lt;b&amp;&quot;c&quot;"), std::string::npos);
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = svg.find("<polyline", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 4u);
}

TEST(BenchReport, PlotOfNothingIsAPlot) {
  EXPECT_EQ(FormatBenchPlot(BenchReport{}).rfind("<svg", 0), 0u);
}

TEST(BenchReport, LabelsLeaveOutWhatOnlyFirstVisitsNeed) {
  EXPECT_EQ(CodecLabel({"aqsgd:bits=3,first_visit=raw:dtype=fp16", "raw:dtype=fp32"}),
            "aqsgd:bits=3 / raw");
  EXPECT_EQ(CodecLabel({"aqsgd+rans:bits=3,first_visit=direct:bits=8/bucket=64,m=8", "topk"}),
            "aqsgd+rans:bits=3,m=8 / topk");
}

TEST(BenchReport, OneRowWithDifferentMIsAMiss) {
  BenchReport report;
  EXPECT_TRUE(report.consistent());
  report.rows.resize(2);
  EXPECT_TRUE(report.consistent());
  report.rows[1].mismatches = 1;
  EXPECT_FALSE(report.consistent());
}

}  // namespace
}  // namespace shoal::bench
