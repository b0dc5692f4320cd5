#include "scheduler/tracking/traffic_meter.h"

#include <gtest/gtest.h>

#include <string>

namespace shoal::scheduler {
namespace {

MemberTraffic Member(std::uint8_t number, double sent, double wire, double raw) {
  MemberTraffic member;
  member.peer.key[0] = number;
  const auto kind = [&](double scale) {
    return "{\"wireSentBytes\":" + std::to_string(scale * wire) +
           ",\"rawSentBytes\":" + std::to_string(raw) + "}";
  };
  member.status_json = "{\"traffic\":{\"forward\":" + kind(1) + ",\"backward\":" + kind(2) +
                       ",\"linkSentWireBytes\":" + std::to_string(sent) + "}}";
  return member;
}

TEST(TrafficMeterTest, BitsAreThoseSinceTheLastLook) {
  TrafficMeter meter;
  const TrafficFigures first = meter.Look({Member(1, 1000, 500, 800)});
  EXPECT_EQ(first.peers, 1u);
  EXPECT_EQ(first.sent_bytes, 0) << "what was sent before the log began is not known to be its";
  EXPECT_FALSE(first.forward_bits);
  const TrafficFigures next = meter.Look({Member(1, 1400, 600, 1600), Member(2, 7, 7, 7)});
  EXPECT_EQ(next.peers, 2u);
  EXPECT_EQ(next.sent_bytes, 400);
  EXPECT_DOUBLE_EQ(*next.forward_bits, 4) << "100 bytes of 800";
  EXPECT_DOUBLE_EQ(*next.backward_bits, 8);
  EXPECT_FALSE(next.replica_bits);
  const TrafficFigures both = meter.Look({Member(1, 1500, 700, 2400), Member(2, 17, 307, 807)});
  EXPECT_EQ(both.sent_bytes, 510);
  EXPECT_DOUBLE_EQ(*both.forward_bits, 32.0 * 400 / 1600);
}

TEST(TrafficMeterTest, CountersThatBeginAnewCountFromThere) {
  TrafficMeter meter;
  meter.Look({Member(1, 1000, 500, 800)});
  EXPECT_EQ(meter.Look({Member(1, 10, 5, 8)}).sent_bytes, 0);
  EXPECT_EQ(meter.Look({Member(1, 30, 10, 48)}).sent_bytes, 20);
}

TEST(TrafficMeterTest, WhatPeersSayIsNotBelieved) {
  TrafficMeter meter;
  MemberTraffic odd;
  for (const char* text : {"", "[", "[]", "{}", "{\"traffic\":3}", "{\"traffic\":{\"forward\":[]}}",
                           "{\"traffic\":{\"linkSentWireBytes\":\"9\"}}",
                           "{\"traffic\":{\"linkSentWireBytes\":-5}}"}) {
    odd.status_json = text;
    const TrafficFigures figures = meter.Look({odd});
    EXPECT_EQ(figures.peers, 1u);
    EXPECT_EQ(figures.sent_bytes, 0) << text;
    EXPECT_FALSE(figures.forward_bits) << text;
  }
}

}  // namespace
}  // namespace shoal::scheduler
