// CheckpointRounds: the checkpoints under way: who saved which parts, who uploads which of them,
// and what is here.
//
// All members of the stage groups save their stage. Each part (weights and moments of a layer) is
// then uploaded by one of those who saved it, so that a group shares the bytes out by the rates of
// its lines. What one of them does not bring, another takes over; who has nothing left to do takes
// over from the slowest. A round does not end with its generation: what was saved stays on the
// disks of those who saved it.
//
// Where members saved different files of a part (a corrupt disk; moments that are a pipeline's
// own), the weights that most of them have count, and of those the moments that most have. Pure.
// Thread: one at a time.

#ifndef SHOAL_SCHEDULER_HISTORY_CHECKPOINT_ROUNDS_H_
#define SHOAL_SCHEDULER_HISTORY_CHECKPOINT_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/status.h"
#include "scheduler/history/artefact_map.h"

namespace shoal::scheduler {

class CheckpointRounds {
 public:
  // A member that is to save its stage.
  struct Saver {
    PeerId peer;
    std::uint32_t stage = 0;
  };
  // Upload rate of a peer's line in bit/s, 0: not known; nullopt: the peer is not here.
  using Line = std::function<std::optional<std::uint64_t>(const PeerId&)>;
  // All that a peer is to upload from now on, in this order; it replaces what it was asked before.
  struct Request {
    PeerId peer;
    std::uint64_t number = 0;
    std::vector<control::v1::ArtefactRef> files;
  };

  // `parts`: names of each stage's. A part of several stages is uploaded for the first of them.
  explicit CheckpointRounds(std::vector<std::vector<std::string>> parts);

  // All rounds end; the run goes on from the checkpoint of `step`. True: there were some.
  bool Reset(std::uint64_t step);
  // Steps applied at the newest checkpoint that was asked for, or resumed from.
  std::uint64_t asked() const { return asked_; }
  // The next step is to be saved, whatever was asked for before: back to that of `step`.
  void AskAgainAfter(std::uint64_t step) { asked_ = step; }
  bool pending() const { return !rounds_.empty(); }
  bool full() const;
  bool Has(std::uint64_t step) const { return rounds_.contains(step); }

  // A checkpoint of `step` applied steps begins, saved in `generation`; one that is under way
  // begins again. Where too many are under way, the oldest ends.
  void Begin(std::uint64_t step, std::uint64_t generation, const std::vector<Saver>& savers);
  // Whether the peer is to save that, or has.
  bool Saves(std::uint64_t step, std::uint64_t generation, const PeerId& peer) const;
  // It has saved these files, by name; others than its stage's are left out. Invalid argument names
  // one that is missing.
  Status AddSaved(std::uint64_t step, const PeerId& peer, const ArtefactMap& files);
  // It could not.
  void AddFailed(std::uint64_t step, const PeerId& peer);
  // Nobody else is waited for any more who has not saved.
  void AwaitOnly(const std::set<PeerId>& peers);
  // Nor after that is anybody: the generation of the rounds has ended. From then on nobody else
  // compares what members of a stage have.
  void AwaitUntil(TimePoint until);
  // These peers hold wrong weights: what they saved is not used. Rounds that have files of theirs
  // by now end; true: there were some.
  bool Distrust(const std::set<PeerId>& peers);
  void Drop(std::uint64_t step);

  // A file is here.
  void AddHere(const std::string& hash, TimePoint now);
  // The peer has uploaded all that it could of a request. True: that was not all of it. Others take
  // over what they can, and nothing more is taken from it of those rounds.
  bool AddOffered(const PeerId& peer, std::uint64_t request);
  // The same, but some of the rest is missing for no fault of the peer's: it is asked again, when
  // AskAgain is called. False: none of `excused` is missing, or the request is an old one.
  bool Postpone(const PeerId& peer, std::uint64_t request, const std::set<std::string>& excused);
  void AskAgain() { changed_ = changed_ || pending(); }
  enum class Move : std::uint8_t {
    kGone,       // it may come back with what it saved, or saves: for kReturnGrace it is waited for
    kReturned,   // from a gap in its connection; what it has not told of yet it tells soon
    kRestarted,  // it holds no stage: what it has not told of it is not waited for
  };
  // A peer that has come is asked anew.
  void Moved(const PeerId& peer, Move how, TimePoint now);
  // Who is gone, or has ended its generation, for long enough is waited for no more; nor is, where
  // others have the same, who has brought nothing for far longer than its line needs. From time to
  // time.
  void DropLate(const Line& line, TimePoint now);

  // A checkpoint that is not whole yet, and how long its files are on their way, as far as the
  // lines are known.
  struct Expected {
    std::uint64_t step = 0;
    double seconds = 0;
    bool dealt = false;  // all of them are shared out; else more may come to that
  };
  // The newest of more than `step` applied steps that may become whole: each part is here, lies
  // with somebody who is here or may come back, or is still waited for.
  std::optional<Expected> ExpectedAfter(std::uint64_t step, const Line& line) const;

  // A round, and a stage of it, a part of which nobody who is here can bring.
  struct Lost {
    std::uint64_t step = 0;
    std::uint32_t stage = 0;
  };
  // A round in which those who have a part have different weights of it, and none has a majority.
  struct Differs {
    std::uint64_t step = 0;
    std::string part;
  };
  struct Dealt {
    std::vector<Request> requests;
    std::optional<Lost> lost;
    std::optional<Differs> differs;
  };
  // Shares out what nobody uploads, and moves what others would bring sooner, where something has
  // changed: whom that concerns. Of what is lost or differs one at a time.
  Dealt Deal(const Line& line, TimePoint now);
  // All is looked at again.
  void LookAgain();
  // A checkpoint whose files are all here, and that nobody is still to save; it and all before it
  // end then.
  struct Whole {
    std::uint64_t step = 0;
    ArtefactMap files;
  };
  std::optional<Whole> TakeWhole();

  // Files of all rounds, here or on their way.
  std::vector<control::v1::ArtefactRef> Files() const;

 private:
  struct Pair {
    control::v1::ArtefactRef weights, moments;
    std::uint64_t bytes() const { return weights.size() + moments.size(); }
    auto hashes() const { return std::pair(weights.hash(), moments.hash()); }
  };
  struct Holder {
    bool awaited = true;
    bool away = false;                    // it has gone, and may come back
    std::optional<TimePoint> until = {};  // how long it is waited for; none: for ever
    std::map<std::string, Pair> parts;    // that it can bring, by name
  };
  struct Group {
    std::map<PeerId, Holder> holders;
    std::size_t awaited = 0;
    bool changed = true;  // since its parts were dealt
  };
  struct Part {
    std::vector<std::uint32_t> stages;  // that have it, in order
    std::optional<PeerId> owner;        // who uploads it
    Pair files;                         // the owner's
  };
  struct Round {
    std::uint64_t generation = 0;
    bool compared = true;       // members' weights are, as long as their generation lasts
    std::vector<Group> groups;  // by stage
    std::map<std::string, Part> parts;
    Holder* Find(const PeerId& peer, Group** group);
  };
  using Load = std::map<PeerId, double>;  // seconds to the end of what a peer uploads

  bool IsHere(const Part& part) const;
  void Change(Round* round, Group* group) const;
  void EndWaiting(Round* round, Group* group, Holder* holder) const;
  struct Holders {
    std::map<PeerId, const Pair*> here;
    bool tie = false;  // of the weights that most have
  };
  Holders HoldersOf(const Round& round, const std::string& name, const Line& line) const;
  static bool Awaited(const Round& round, const Part& part);
  static bool MayComeBack(const Round& round, const std::string& name);
  Load LoadOf(const Line& line) const;
  // Names a part that nobody has, or that differs.
  struct Trouble {
    std::string lost, differs;
  };
  Trouble DealGroup(Round* round, std::uint32_t stage, const Line& line, Load* load) const;
  void TakeOver(Round* round, std::uint32_t stage, const Line& line, Load* load) const;
  std::vector<Request> Changes(const Line& line, TimePoint now);
  void KeepHere();

  struct Told {
    std::uint64_t number = 0;
    std::set<std::string> hashes;
    TimePoint since{};  // it was asked, or brought something
  };
  const std::vector<std::vector<std::string>> parts_;
  std::map<std::uint64_t, Round> rounds_;  // by steps applied
  std::set<std::string> here_;             // hashes of files of rounds
  std::map<PeerId, Told> told_;
  bool changed_ = false;  // since requests were made
  std::uint64_t requests_ = 0;
  std::uint64_t asked_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_CHECKPOINT_ROUNDS_H_
