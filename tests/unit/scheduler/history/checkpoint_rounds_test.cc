#include "scheduler/history/checkpoint_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

using Move = CheckpointRounds::Move;

PeerId Peer(unsigned number) {
  PeerId peer;
  peer.key[0] = static_cast<std::uint8_t>(number);
  return peer;
}

control::v1::ArtefactRef File(const std::string& name, const std::string& hash,
                              std::uint64_t size = 100) {
  control::v1::ArtefactRef file;
  file.set_name(name);
  file.set_hash(hash);
  file.set_size(size);
  return file;
}

// Weights and moments of some parts; equal texts are equal files.
ArtefactMap Saved(const std::vector<std::string>& parts, const std::string& weights = "w",
                  const std::string& moments = "m") {
  ArtefactMap files;
  for (const std::string& part : parts) {
    files[part] = File(part, part + weights);
    files[part + ".optimizer"] = File(part + ".optimizer", part + moments, 200);
  }
  return files;
}

// Lines of those that are here, in bit/s.
using Lines = std::map<PeerId, std::uint64_t>;

CheckpointRounds::Line LineOf(const Lines& lines) {
  return [&lines](const PeerId& peer) -> std::optional<std::uint64_t> {
    const auto found = lines.find(peer);
    if (found == lines.end()) return std::nullopt;
    return found->second;
  };
}

std::vector<std::string> Names(const CheckpointRounds::Request& request) {
  std::vector<std::string> names;
  for (const auto& file : request.files) names.push_back(file.name());
  return names;
}

// One stage of four parts, three members.
struct OneStage {
  OneStage() { rounds.Begin(5, 1, {{Peer(1), 0}, {Peer(2), 0}, {Peer(3), 0}}); }
  void AllSave() {
    for (const unsigned peer : {1u, 2u, 3u})
      EXPECT_TRUE(rounds.AddSaved(5, Peer(peer), files).ok());
  }
  // What each peer is asked for, and the newest requests.
  std::map<PeerId, std::vector<std::string>> Deal() {
    std::map<PeerId, std::vector<std::string>> asked;
    const auto dealt = rounds.Deal(LineOf(lines), now);
    lost = dealt.lost.has_value();
    for (const auto& request : dealt.requests) {
      asked[request.peer] = Names(request);
      newest[request.peer] = request;
    }
    return asked;
  }
  // And does not come back in time.
  void Gone(const PeerId& peer) {
    rounds.Moved(peer, Move::kGone, now);
    rounds.DropLate(LineOf(lines), now + kReturnGrace);
  }
  void Bring(const PeerId& peer) {
    for (const auto& file : newest[peer].files) rounds.AddHere(file.hash(), TimePoint{});
  }

  const std::vector<std::string> parts = {"a", "b", "c", "d"};
  const ArtefactMap files = Saved(parts);
  CheckpointRounds rounds{{parts}};
  Lines lines = {{Peer(1), 10'000'000}, {Peer(2), 10'000'000}, {Peer(3), 20'000'000}};
  std::map<PeerId, CheckpointRounds::Request> newest;
  bool lost = false;
  TimePoint now{};
};

TEST(CheckpointRounds, ThePartsAreSharedOutByTheLines) {
  OneStage stage;
  EXPECT_EQ(stage.rounds.asked(), 5u);
  EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(1), stage.files).ok());
  EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(2), stage.files).ok());
  EXPECT_THAT(stage.Deal(), IsEmpty()) << "one is still saving";
  EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(3), stage.files).ok());
  const auto asked = stage.Deal();
  ASSERT_THAT(asked, SizeIs(3));
  EXPECT_THAT(asked.at(Peer(1)), SizeIs(2));
  EXPECT_THAT(asked.at(Peer(2)), SizeIs(2));
  EXPECT_THAT(asked.at(Peer(3)), SizeIs(4)) << "twice as fast";
  EXPECT_THAT(stage.Deal(), IsEmpty()) << "nothing has changed";
  for (const unsigned peer : {1u, 2u}) stage.Bring(Peer(peer));
  EXPECT_FALSE(stage.rounds.TakeWhole());
  stage.Bring(Peer(3));
  const auto whole = stage.rounds.TakeWhole();
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->step, 5u);
  EXPECT_EQ(whole->files.size(), 8u);
  for (const auto& [name, file] : whole->files) {
    EXPECT_EQ(file.hash(), stage.files.at(name).hash());
  }
  EXPECT_FALSE(stage.rounds.pending());
}

TEST(CheckpointRounds, OthersTakeOverFromWhoGoes) {
  OneStage stage;
  stage.AllSave();
  stage.Deal();
  stage.Bring(Peer(1));
  stage.lines.erase(Peer(3));
  stage.Gone(Peer(3));
  EXPECT_TRUE(stage.Deal().contains(Peer(1))) << "the other has still to do";
  stage.Bring(Peer(1));
  stage.Bring(Peer(2));
  EXPECT_TRUE(stage.rounds.TakeWhole());
}

TEST(CheckpointRounds, WhoComesBackIsAskedAgain) {
  OneStage stage;
  stage.lines = {{Peer(1), 0}};
  for (const unsigned peer : {2u, 3u}) stage.Gone(Peer(peer));
  EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(1), stage.files).ok());
  EXPECT_THAT(stage.Deal().at(Peer(1)), SizeIs(8));
  stage.rounds.AddHere("aw", TimePoint{});
  stage.rounds.Moved(Peer(1), Move::kReturned, stage.now);
  EXPECT_THAT(stage.Deal().at(Peer(1)), SizeIs(7)) << "but for what is here";
  EXPECT_FALSE(stage.lost);
}

TEST(CheckpointRounds, OthersTakeOverWhatAMemberDoesNotBring) {
  OneStage stage;
  stage.AllSave();
  stage.Deal();
  const auto request = stage.newest[Peer(3)];
  EXPECT_FALSE(stage.rounds.AddOffered(Peer(3), request.number + 7)) << "of no newest request";
  EXPECT_TRUE(stage.rounds.AddOffered(Peer(3), request.number));
  stage.Deal();
  for (const unsigned peer : {1u, 2u}) stage.Bring(Peer(peer));
  EXPECT_TRUE(stage.rounds.TakeWhole());
}

TEST(CheckpointRounds, WhoIsDoneTakesAPartOfTheSlowest) {
  OneStage stage;
  stage.lines = {{Peer(1), 10'000'000}, {Peer(2), 10'000'000}, {Peer(3), 10'000'000}};
  stage.AllSave();
  const auto asked = stage.Deal();
  PeerId most, done;  // one has two of the four parts
  for (const auto& [peer, names] : asked) (names.size() == 4 ? most : done) = peer;
  stage.Bring(done);
  EXPECT_FALSE(stage.rounds.AddOffered(done, stage.newest[done].number));
  const auto moved = stage.Deal();
  ASSERT_THAT(moved, SizeIs(2));
  EXPECT_THAT(moved.at(most), SizeIs(2));
  EXPECT_EQ(moved.at(most)[0], asked.at(most)[0]) << "what it is uploading stays";
  EXPECT_THAT(moved.at(done), ElementsAre(asked.at(most)[2], asked.at(most)[3]));
}

TEST(CheckpointRounds, APartThatNobodyHereHasIsLost) {
  OneStage stage;
  stage.rounds.AddFailed(5, Peer(1));
  stage.rounds.AddFailed(5, Peer(2));
  stage.Deal();
  EXPECT_FALSE(stage.lost) << "one is still saving";
  EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(3), stage.files).ok());
  stage.Deal();
  EXPECT_FALSE(stage.lost);
  stage.lines.erase(Peer(3));
  stage.Gone(Peer(3));
  stage.Deal();
  EXPECT_TRUE(stage.lost);
  stage.Deal();
  EXPECT_FALSE(stage.lost) << "said once";
  stage.lines[Peer(3)] = 0;  // the generation went on in place, and it is back
  stage.rounds.Moved(Peer(3), Move::kReturned, stage.now);
  EXPECT_THAT(stage.Deal(), SizeIs(1));
  EXPECT_FALSE(stage.lost);
}

TEST(CheckpointRounds, WhoIsGoneForAMomentIsWaitedFor) {
  OneStage stage;
  stage.lines.erase(Peer(1));
  stage.rounds.Moved(Peer(1), Move::kGone, stage.now);
  for (const unsigned peer : {2u, 3u}) stage.rounds.AddFailed(5, Peer(peer));
  EXPECT_TRUE(stage.rounds.ExpectedAfter(4, LineOf(stage.lines)));
  EXPECT_FALSE(stage.rounds.ExpectedAfter(5, LineOf(stage.lines)));
  stage.Deal();
  EXPECT_FALSE(stage.lost) << "it may be saving";
  stage.lines[Peer(1)] = 0;
  stage.rounds.Moved(Peer(1), Move::kReturned, stage.now);
  EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(1), stage.files).ok());
  EXPECT_THAT(stage.Deal(), SizeIs(1));
  // And once more, while it uploads.
  stage.lines.erase(Peer(1));
  stage.rounds.Moved(Peer(1), Move::kGone, stage.now);
  stage.Deal();
  EXPECT_FALSE(stage.lost);
  EXPECT_TRUE(stage.rounds.ExpectedAfter(4, LineOf(stage.lines)));
  stage.rounds.DropLate(LineOf(stage.lines), stage.now + kReturnGrace);
  EXPECT_FALSE(stage.rounds.ExpectedAfter(4, LineOf(stage.lines)));
  stage.Deal();
  EXPECT_TRUE(stage.lost);
}

TEST(CheckpointRounds, WhoStartsAnewHasWhatItSavedAndSavesNothingMore) {
  OneStage stage;
  EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(1), stage.files).ok());
  for (const unsigned peer : {1u, 2u}) stage.rounds.Moved(Peer(peer), Move::kRestarted, stage.now);
  EXPECT_THAT(stage.Deal(), IsEmpty()) << "the third still saves";
  stage.rounds.AwaitUntil(stage.now + kSaveLimit);
  stage.rounds.DropLate(LineOf(stage.lines), stage.now + kSaveLimit);
  EXPECT_THAT(stage.Deal().at(Peer(1)), SizeIs(8));
  const auto expected = stage.rounds.ExpectedAfter(4, LineOf(stage.lines));
  ASSERT_TRUE(expected);
  EXPECT_EQ(expected->step, 5u);
  EXPECT_NEAR(expected->seconds, 8.0 * 4 * 300 / 10e6, 1e-9);
}

TEST(CheckpointRounds, WhatMostSavedCounts) {
  OneStage stage;
  EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(1), Saved(stage.parts, "bad")).ok());
  EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(2), stage.files).ok());
  EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(3), stage.files).ok());
  const auto asked = stage.Deal();
  EXPECT_FALSE(asked.contains(Peer(1)));
  EXPECT_THAT(asked, SizeIs(2));
}

// While their generation lasts the weights of members are compared elsewhere.
TEST(CheckpointRounds, AfterItsGenerationATieIsADifference) {
  for (const bool ended : {false, true}) {
    OneStage stage;
    stage.rounds.AddFailed(5, Peer(1));
    EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(2), stage.files).ok());
    if (ended) stage.rounds.AwaitUntil(stage.now);
    EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(3), Saved(stage.parts, "other")).ok());
    EXPECT_EQ(stage.rounds.Deal(LineOf(stage.lines), stage.now).differs.has_value(), ended);
  }
}

TEST(CheckpointRounds, WhatMostSavedOfAPartOfTwoStagesCounts) {
  const std::vector<std::vector<std::string>> parts = {{"shared"}, {"shared"}};
  CheckpointRounds rounds(parts);
  const Lines lines = {{Peer(1), 0}, {Peer(2), 0}, {Peer(3), 0}, {Peer(4), 0}};
  rounds.Begin(1, 1, {{Peer(1), 0}, {Peer(2), 1}, {Peer(3), 0}, {Peer(4), 1}});
  for (const unsigned peer : {1u, 2u, 3u, 4u}) {
    const auto files = Saved(parts[0], peer == 2 ? "bad" : "w", "m" + std::to_string(peer));
    EXPECT_TRUE(rounds.AddSaved(1, Peer(peer), files).ok());
  }
  const auto dealt = rounds.Deal(LineOf(lines), TimePoint{});
  EXPECT_FALSE(dealt.differs);
  ASSERT_THAT(dealt.requests, SizeIs(1));
  EXPECT_NE(dealt.requests[0].peer, Peer(2));
}

TEST(CheckpointRounds, WhoBringsNothingIsWaitedForNoMoreWhereOthersHaveTheSame) {
  OneStage stage;
  stage.AllSave();
  stage.Deal();
  for (const unsigned peer : {1u, 2u}) stage.Bring(Peer(peer));
  stage.rounds.DropLate(LineOf(stage.lines), stage.now + std::chrono::seconds(59));
  EXPECT_THAT(stage.Deal(), IsEmpty());
  stage.rounds.DropLate(LineOf(stage.lines), stage.now + std::chrono::seconds(61));
  stage.Deal();
  for (const unsigned peer : {1u, 2u}) stage.Bring(Peer(peer));
  EXPECT_TRUE(stage.rounds.TakeWhole());
  // Who has it alone has all the time that it needs.
  OneStage alone;
  for (const unsigned peer : {1u, 2u}) alone.rounds.AddFailed(5, Peer(peer));
  EXPECT_TRUE(alone.rounds.AddSaved(5, Peer(3), alone.files).ok());
  alone.Deal();
  alone.rounds.DropLate(LineOf(alone.lines), alone.now + std::chrono::hours(9));
  EXPECT_THAT(alone.Deal(), IsEmpty());
  EXPECT_FALSE(alone.lost);
}

// Each is said, one at a time.
TEST(CheckpointRounds, TwoRoundsThatAreLostAtOnceAreBothSaid) {
  OneStage stage;
  stage.rounds.Begin(6, 1, {{Peer(1), 0}});
  for (const unsigned peer : {1u, 2u, 3u}) stage.rounds.AddFailed(5, Peer(peer));
  stage.rounds.AddFailed(6, Peer(1));
  EXPECT_EQ(stage.rounds.Deal(LineOf(stage.lines), stage.now).lost->step, 5u);
  stage.rounds.Drop(5);
  EXPECT_EQ(stage.rounds.Deal(LineOf(stage.lines), stage.now).lost->step, 6u);
}

// Local steps: moments are each pipeline's own. Weights and moments of a part are one member's.
TEST(CheckpointRounds, WeightsAndMomentsOfAPartAreOneMembers) {
  OneStage stage;
  for (const unsigned peer : {1u, 2u, 3u}) {
    const ArtefactMap own = Saved(stage.parts, "w", "m" + std::to_string(peer));
    EXPECT_TRUE(stage.rounds.AddSaved(5, Peer(peer), own).ok());
  }
  EXPECT_THAT(stage.Deal(), SizeIs(3));
  stage.lines.erase(Peer(2));  // its moments are nobody else's
  stage.Gone(Peer(2));
  stage.Deal();
  for (const unsigned peer : {1u, 3u}) stage.Bring(Peer(peer));
  const auto whole = stage.rounds.TakeWhole();
  ASSERT_TRUE(whole);
  for (const std::string& part : stage.parts) {
    EXPECT_NE(whole->files.at(part + ".optimizer").hash(), part + "m2");
  }
}

TEST(CheckpointRounds, WrongWeightsAreNotTaken) {
  OneStage stage;
  stage.AllSave();
  EXPECT_FALSE(stage.rounds.Distrust({Peer(3)})) << "nothing of it is here";
  EXPECT_FALSE(stage.rounds.Saves(5, 1, Peer(3))) << "nor what it tells in a later generation";
  const auto asked = stage.Deal();
  EXPECT_FALSE(asked.contains(Peer(3)));
  stage.rounds.AddHere(stage.newest[Peer(1)].files[0].hash(), TimePoint{});
  EXPECT_TRUE(stage.rounds.Distrust({Peer(1)}));
  EXPECT_FALSE(stage.rounds.pending());
  const auto after = stage.Deal();
  EXPECT_THAT(after.at(Peer(2)), IsEmpty()) << "nobody needs it any more";
}

TEST(CheckpointRounds, APartOfTwoStagesIsUploadedOnce) {
  const std::vector<std::vector<std::string>> parts = {{"shared", "a"}, {"shared", "b"}};
  CheckpointRounds rounds(parts);
  const Lines lines = {{Peer(1), 0}, {Peer(2), 0}};
  const TimePoint now{};
  rounds.Begin(1, 1, {{Peer(1), 0}, {Peer(2), 1}});
  EXPECT_TRUE(rounds.AddSaved(1, Peer(1), Saved(parts[0], "w", "m1")).ok());
  EXPECT_TRUE(rounds.AddSaved(1, Peer(2), Saved(parts[1], "w", "m2")).ok())
      << "moments may be a stage's own";
  std::set<std::string> names;
  for (const auto& request : rounds.Deal(LineOf(lines), now).requests) {
    for (const std::string& name : Names(request)) EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_THAT(names, UnorderedElementsAre("shared", "shared.optimizer", "a", "a.optimizer", "b",
                                          "b.optimizer"));
  rounds.Begin(2, 1, {{Peer(1), 0}, {Peer(2), 1}});
  EXPECT_TRUE(rounds.AddSaved(2, Peer(1), Saved(parts[0], "w")).ok());
  EXPECT_TRUE(rounds.AddSaved(2, Peer(2), Saved(parts[1], "other")).ok());
  const auto dealt = rounds.Deal(LineOf(lines), now);
  ASSERT_TRUE(dealt.differs);
  EXPECT_EQ(dealt.differs->step, 2u);
  EXPECT_EQ(dealt.differs->part, "shared");
  ArtefactMap less = Saved(parts[1], "w");
  less.erase("b.optimizer");
  const Status missing = rounds.AddSaved(2, Peer(2), less);
  EXPECT_EQ(missing.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(missing.message(), "b.optimizer");
}

TEST(CheckpointRounds, AWholeOneEndsThoseBeforeItAndTheOldestMakesRoom) {
  OneStage stage;
  for (std::uint64_t step = 6; stage.rounds.Has(5); ++step) {
    EXPECT_LE(step, 5 + kPendingCheckpointsMax);
    stage.rounds.Begin(step, 1, {{Peer(1), 0}});
  }
  EXPECT_TRUE(stage.rounds.full());
  const std::uint64_t newest = 5 + kPendingCheckpointsMax;
  EXPECT_TRUE(stage.rounds.AddSaved(newest, Peer(1), stage.files).ok());
  stage.Deal();
  stage.Bring(Peer(1));
  EXPECT_EQ(stage.rounds.TakeWhole()->step, newest);
  EXPECT_FALSE(stage.rounds.pending());
}

TEST(CheckpointRounds, WhoSavedInAnotherGenerationIsNotMeant) {
  OneStage stage;
  EXPECT_TRUE(stage.rounds.Saves(5, 1, Peer(1)));
  EXPECT_FALSE(stage.rounds.Saves(5, 2, Peer(1)));
  EXPECT_FALSE(stage.rounds.Saves(6, 1, Peer(1)));
  EXPECT_FALSE(stage.rounds.Saves(5, 1, Peer(4)));
  EXPECT_TRUE(stage.rounds.Reset(3));
  EXPECT_EQ(stage.rounds.asked(), 3u);
  EXPECT_FALSE(stage.rounds.Saves(5, 1, Peer(1)));
  EXPECT_FALSE(stage.rounds.Reset(3));
}

// Members come, go and fail at random while they upload, file by file in the order of their newest
// request.
class CheckpointRoundsRandom : public ::testing::TestWithParam<unsigned> {
 protected:
  static constexpr unsigned kPeers = 12;

  CheckpointRoundsRandom() : random_(GetParam()) {
    const bool own_moments = Chance(0.3);
    std::vector<CheckpointRounds::Saver> savers;
    for (unsigned peer = 1; peer <= kPeers; ++peer) {
      savers.push_back({Peer(peer), peer % 3});
      lines_[Peer(peer)] = Chance(0.2) ? 0 : 1'000'000 * (1 + random_() % 50);
    }
    all_ = lines_;
    rounds_.Begin(9, 1, savers);
    for (const auto& saver : savers) {
      if (Chance(0.15)) {
        rounds_.AddFailed(9, saver.peer);
        continue;
      }
      const std::string moments = own_moments ? "m" + std::to_string(saver.peer.key[0]) : "m";
      saved_[saver.peer] = Saved(parts_[saver.stage], "w", moments);
      EXPECT_TRUE(rounds_.AddSaved(9, saver.peer, saved_[saver.peer]).ok());
    }
  }
  bool Chance(double share) { return random_() % 1000 < 1000 * share; }
  void Deal() {
    for (auto& request : rounds_.Deal(LineOf(lines_), TimePoint{}).requests) {
      for (const auto& file : request.files) {
        ASSERT_TRUE(saved_[request.peer].contains(file.name()));
        ASSERT_EQ(saved_[request.peer].at(file.name()).hash(), file.hash());
      }
      ASSERT_GT(request.number, last_[request.peer]);
      last_[request.peer] = request.number;
      requests_[request.peer] = std::move(request);
    }
  }
  void ComeOrGo(const PeerId& peer) {
    const bool here = !lines_.contains(peer);
    here ? void(lines_[peer] = all_.at(peer)) : void(lines_.erase(peer));
    requests_.erase(peer);
    rounds_.Moved(peer,
                  !here         ? Move::kGone
                  : Chance(0.5) ? Move::kReturned
                                : Move::kRestarted,
                  TimePoint{});
  }
  // Sends the next file, or says that it is done, or its disk fails.
  void Upload(const PeerId& peer) {
    const auto request = requests_.find(peer);
    if (request == requests_.end() || !lines_.contains(peer)) return;
    auto& files = request->second.files;
    if (files.empty() || Chance(0.003)) {
      if (!files.empty()) saved_[peer].clear();
      rounds_.AddOffered(peer, request->second.number);
      requests_.erase(peer);
    } else {
      rounds_.AddHere(files.front().hash(), TimePoint{});
      files.erase(files.begin());
    }
  }
  // Of each part somebody who is here has weights and moments.
  bool Possible() {
    for (const auto& stage : parts_) {
      for (const std::string& part : stage) {
        const bool any = std::ranges::any_of(
            lines_, [&](const auto& line) { return saved_[line.first].contains(part); });
        if (!any) return false;
      }
    }
    return true;
  }

  std::mt19937 random_;
  const std::vector<std::vector<std::string>> parts_ = {
      {"shared", "a", "b", "c"}, {"d", "e"}, {"shared", "f", "g", "h", "i"}};
  CheckpointRounds rounds_{parts_};
  Lines lines_, all_;
  std::map<PeerId, ArtefactMap> saved_;
  std::map<PeerId, CheckpointRounds::Request> requests_;
  std::map<PeerId, std::uint64_t> last_;  // newest number of any request of the peer
};

TEST_P(CheckpointRoundsRandom, IsWholeWhereOfEachPartSomebodyIsHere) {
  std::optional<CheckpointRounds::Whole> whole;
  for (int turn = 0; turn < 4000 && !whole && !HasFatalFailure(); ++turn) {
    Deal();
    const PeerId peer = Peer(1 + random_() % kPeers);
    if (Chance(0.02) && turn < 2000) ComeOrGo(peer);
    Upload(peer);
    whole = rounds_.TakeWhole();
  }
  EXPECT_TRUE(whole || !Possible());
  if (!whole) return;
  for (const auto& stage : parts_) {
    for (const std::string& part : stage) {
      EXPECT_EQ(whole->files.at(part).hash(), part + "w");
      EXPECT_TRUE(whole->files.contains(part + ".optimizer"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CheckpointRoundsRandom, ::testing::Range(1u, 200u));

}  // namespace
}  // namespace shoal::scheduler
