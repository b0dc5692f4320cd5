#include "scheduler/tracking/event_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace shoal::scheduler {
namespace {

// Made by TensorBoard 2.20's own RecordWriter, of tensorboard.compat.proto.event_pb2.Event.
constexpr const char* kGolden =
    // file_version, at 1700000000.25 s
    "1800000000000000a37f4b22"
    "0900001040fc54d9411a0d627261696e2e4576656e743a32"
    "338d2fe9"
    // a session that starts at step 7, at 1700000002.5 s
    "0f000000000000006d532b09"
    "090000a040fc54d94110073a020801"
    "367d3828"
    // step 300: loss/train 3.25, time/step_s 0.1
    "3500000000000000d6c55de6"
    "090000a040fc54d94110ac022a270a110a0a6c6f73732f747261696e15000050400a120a0b74696d652f737465"
    "705f7315cdcccc3d"
    "dcacf61e";

TEST(EventFileTest, BytesAreTensorBoards) {
  LogEntry entry;
  entry.at_ms = 1700000002500;
  entry.step = 300;
  entry.void_from = 7;
  entry.scalars = {{"loss/train", "loss", 3.25}, {"time/step_s", "stepSeconds", 0.1}};
  std::string hex;
  for (const char c : EventFileHead(1700000000250) + EventFileRecords(entry)) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(c));
    hex += digits;
  }
  EXPECT_EQ(hex, kGolden);
}

TEST(EventFileTest, WhatHasNoScalarsIsNoRecord) {
  LogEntry entry;
  entry.at_ms = 1;
  entry.step = 2;
  entry.json = "{}";
  EXPECT_EQ(EventFileRecords(entry), "");
}

}  // namespace
}  // namespace shoal::scheduler
