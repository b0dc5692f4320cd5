// The engine of ring_reduce.h. Every chunk of every slice walks through the steps of the plan by
// itself: wait for a message, work on `compute`, send. `control` looks at headers only.

#include "replica/collective/ring/ring_reduce.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "common/checksum.h"
#include "replica/collective/ring/ring_message.h"
#include "replica/methods/group_limits.h"

namespace shoal::collective {
namespace {

constexpr std::size_t kEarlyMessageCost = 256;  // bookkeeping of a message, however short
constexpr std::size_t kClosingMax =
    4;  // chunks at once, for merges that others wait for come between

// What tasks on `compute` share: different chunks touch different bytes of the vector.
struct Work {
  Buffer vector;
  std::shared_ptr<const RingMerge> merge;
  std::shared_ptr<RingEnds> ends;  // may be null
  std::uint64_t round = 0, epoch = 0, method = 0;
  std::size_t member = 0;
};

// One step of one chunk.
struct ChunkTask {
  RingStep step;
  bool first = false;  // of the chunk's steps
  std::size_t slice = 0, chunk = 0;
  std::size_t in_slice = 0, in_vector = 0, elements = 0;
  Buffer message;  // what arrived; empty without step.from
};

// Checks what arrived and puts it into `own`; returns its hash.
Result<std::uint64_t> TakeMessage(const ChunkTask& task, std::span<std::byte> own,
                                  const Work& work) {
  SHOAL_ASSIGN_OR_RETURN(const RingHeader header, ReadRingHeader(task.message.bytes()));
  const std::span<const std::byte> received = task.message.bytes().subspan(kRingHeaderBytes);
  const std::string who = "chunk " + std::to_string(task.chunk) + " of slice " +
                          std::to_string(task.slice) + " from member " +
                          std::to_string(*task.step.from) + " of the stage group";
  if (Checksum64(received) != header.hash) {
    return DataLoss(who + " was damaged on its way; the exchange is tried again");
  }
  if (Status status = work.merge->Check(task.in_vector, received); !status.ok()) {
    return status.WithContext(who);
  }
  if (task.step.gathers() || task.step.own == 0) {
    std::memcpy(own.data(), received.data(), own.size());
  } else if (task.step.received != 0) {
    work.merge->Merge({.round = work.round,
                       .phase = task.step.phase,
                       .hop = task.step.hop,
                       .member = work.member,
                       .slice = task.slice,
                       .in_slice = task.in_slice,
                       .in_vector = task.in_vector,
                       .received = task.step.received,
                       .own = task.step.own},
                      received, own);
  }
  return header.hash;
}

// Merges or adopts what arrived; returns the message to send on, empty if there is none.
Result<Buffer> RunStep(ChunkTask task, Work* work) {
  const std::size_t size = work->merge->element_bytes();
  const std::span<std::byte> own =
      work->vector.bytes().subspan(task.in_vector * size, task.elements * size);
  if (task.first && work->ends != nullptr) {
    SHOAL_RETURN_IF_ERROR(work->ends->Open(task.in_vector, own));
  }
  std::uint64_t hash = 0;
  if (task.step.from) {
    SHOAL_ASSIGN_OR_RETURN(hash, TakeMessage(task, own, *work));
  }
  if (!task.step.to) return Buffer();
  const bool verbatim = task.step.from && task.step.gathers();
  Buffer message = task.step.from ? std::move(task.message) : Buffer(kRingHeaderBytes + own.size());
  if (!verbatim) std::memcpy(message.data() + kRingHeaderBytes, own.data(), own.size());
  WriteRingHeader({.kind = work->merge->kind(),
                   .phase = task.step.phase,
                   .hop = static_cast<std::uint8_t>(task.step.hop),
                   .slice = static_cast<std::uint32_t>(task.slice),
                   .chunk = static_cast<std::uint32_t>(task.chunk),
                   .contributors = task.step.received + task.step.own,
                   .round = work->round,
                   .epoch = work->epoch,
                   .method = work->method,
                   .hash = verbatim ? hash : Checksum64(own)},
                  message.bytes());
  return message;
}

// All there is to do without other members, or without elements.
Status RunAlone(Work* work) {
  const std::size_t elements = work->vector.size() / work->merge->element_bytes();
  if (work->ends == nullptr || elements == 0) return Status::Ok();
  SHOAL_RETURN_IF_ERROR(work->ends->Open(0, work->vector.bytes()));
  return work->ends->Close(0, elements, work->vector.bytes());
}

// Thread: control. Tasks on `compute` own what they touch, and find the operation gone by `epoch`.
class RingReduceImpl final : public RingReduce {
 public:
  RingReduceImpl(GroupChannel* channel, Executor* control, Executor* compute,
                 const RingOptions& options)
      : channel_(channel), control_(control), compute_(compute), options_(options) {
    channel_->SetReceiver([this](std::size_t from, std::uint64_t tag, Buffer message) {
      OnMessage(from, tag, std::move(message));
    });
  }
  ~RingReduceImpl() override {
    *epoch_ = 0;
    channel_->SetReceiver(nullptr);
  }

  void Start(RingRequest request, std::function<void(Result<Buffer>)> done) override;
  void Abort() override {
    SHOAL_ASSERT_ON(*control_);
    Finish(Aborted("the exchange inside the stage group was aborted"));
  }
  std::vector<std::size_t> Awaited() const override;
  std::size_t rank() const override {
    SHOAL_ASSERT_ON(*control_);
    return channel_->rank();
  }
  RingTraffic traffic() const override {
    SHOAL_ASSERT_ON(*control_);
    return traffic_;
  }

 private:
  struct Chunk {
    std::size_t next = 0;                     // index of the step it is at
    bool busy = false;                        // a task for it runs
    std::array<bool, kRingPhases> arrived{};  // by phase; never reset
    std::array<Buffer, kRingPhases> held;     // arrived and not yet used
  };
  struct Slice {
    Extent extent;  // elements of the vector
    std::vector<RingStep> steps;
    std::vector<Chunk> chunks;
  };
  struct Early {
    std::size_t from;
    std::uint64_t tag;
    Buffer message;
  };

  Status CheckStart(const RingRequest& request) const;
  std::uint64_t MethodOf(const RingRequest& request) const;
  void Plan(std::uint64_t contributors);
  void OnMessage(std::size_t from, std::uint64_t tag, Buffer message);
  void HoldEarly(Early early);
  void Refuse(std::size_t from, const Status& status);
  Status Place(std::size_t from, const RingHeader& header, Buffer message);
  void Advance(std::size_t slice, std::size_t chunk);
  void AfterStep(std::size_t slice, std::size_t chunk, Result<Buffer> message);
  void OnOutcome(Extent chunk);
  void Close();
  Extent ChunkExtent(const Slice& slice, std::size_t chunk) const;  // in the slice
  bool IsSettledFirst(Extent chunk) const;                          // in the vector
  void Finish(Result<Buffer> result);
  // Runs `work` on compute, then `then` with its result here, unless the operation ended.
  template <typename Task, typename Then>
  void OnCompute(const char* name, Task task, Then then);

  GroupChannel* const channel_;
  Executor* const control_;
  Executor* const compute_;
  const RingOptions options_;
  // Number of the operation; tasks of an earlier one see a difference and end. Shared, because a
  // task may outlive this object; 0 after destruction.
  std::shared_ptr<std::atomic<std::uint64_t>> epoch_ =
      std::make_shared<std::atomic<std::uint64_t>>(1);

  RingTraffic traffic_;
  bool running_ = false, started_ = false;  // started_: any round yet
  std::uint64_t round_ = 0;                 // running or last
  std::function<void(Result<Buffer>)> done_;
  std::shared_ptr<Work> work_;
  std::size_t chunk_elements_ = 1;
  std::vector<Slice> slices_;
  std::size_t open_ = 0;                            // chunks with steps to do, or to be closed
  std::size_t unsettled_ = 0;                       // chunks that closing the others waits for
  std::deque<Extent> outcomes_;                     // of the vector, to be closed
  std::size_t closing_ = 0;                         // at work
  std::vector<Early> early_;                        // messages of later rounds
  std::map<std::size_t, std::size_t> early_bytes_;  // of them, by member
  Status broken_;  // not OK: messages of a member were lost, so later rounds could not end
};

template <typename Task, typename Then>
void RingReduceImpl::OnCompute(const char* name, Task task, Then then) {
  const std::uint64_t mine = *epoch_;
  auto shared = std::make_shared<Task>(std::move(task));  // std::function must be copyable
  compute_->Post(name, [name, mine, epoch = epoch_, control = control_, shared, then] {
    if (*epoch != mine) return;
    auto result = std::make_shared<decltype((*shared)())>((*shared)());
    control->Post(name, [mine, epoch, result, then] {
      if (*epoch == mine) then(std::move(*result));
    });
  });
}

Status RingReduceImpl::CheckStart(const RingRequest& request) const {
  SHOAL_RETURN_IF_ERROR(broken_);
  const std::size_t members = channel_->size();
  if (running_) return FailedPrecondition("a ring exchange is still running");
  if (started_ && request.round <= round_) {
    return InvalidArgument("ring round " + std::to_string(request.round) +
                           " does not follow round " + std::to_string(round_));
  }
  if (members == 0 || members > replica::kRingMembersMax || channel_->rank() >= members) {
    return InvalidArgument("a ring has 1 to " + std::to_string(replica::kRingMembersMax) +
                           " members, this one has " + std::to_string(members));
  }
  const std::uint64_t all = members == 64 ? ~0ull : (1ull << members) - 1;
  if (request.contributors == 0 || (request.contributors & ~all) != 0) {
    return InvalidArgument("the contributors to a ring exchange must be one or more of its " +
                           std::to_string(members) + " members");
  }
  if (request.vector.size() % request.merge->element_bytes() != 0) {
    return InvalidArgument("a ring exchange takes elements of " +
                           std::to_string(request.merge->element_bytes()) + " bytes, not " +
                           std::to_string(request.vector.size()) + " bytes");
  }
  return Status::Ok();
}

Extent RingReduceImpl::ChunkExtent(const Slice& slice, std::size_t chunk) const {
  const std::size_t begin = chunk * chunk_elements_;
  return {begin, std::min(begin + chunk_elements_, slice.extent.size())};
}

bool RingReduceImpl::IsSettledFirst(Extent chunk) const {
  return work_->ends != nullptr && chunk.end > work_->ends->settled_first();
}

void RingReduceImpl::Plan(std::uint64_t contributors) {
  const std::size_t members = channel_->size();
  const std::size_t size = work_->merge->element_bytes();
  const std::size_t elements = work_->vector.size() / size;
  const Torus torus = TorusOf(members, options_.columns);
  chunk_elements_ = std::max<std::size_t>(1, options_.chunk_bytes / size);
  slices_ = std::vector<Slice>(members);
  open_ = unsettled_ = closing_ = 0;
  outcomes_.clear();
  for (std::size_t s = 0; s < members; ++s) {
    Slice& slice = slices_[s];
    slice.extent = SliceOf(elements, s, members);
    slice.steps = RingStepsOf(torus, contributors, channel_->rank(), s);
    const std::size_t n = slice.extent.size();
    const std::size_t chunks = n / chunk_elements_ + (n % chunk_elements_ == 0 ? 0 : 1);
    slice.chunks = std::vector<Chunk>(chunks);
    if (slice.steps.empty()) continue;
    open_ += chunks;
    for (std::size_t c = 0; c < chunks; ++c) {
      const Extent chunk = ChunkExtent(slice, c);
      const Extent in_vector{slice.extent.begin + chunk.begin, slice.extent.begin + chunk.end};
      unsettled_ += IsSettledFirst(in_vector) ? 1 : 0;
    }
  }
}

std::uint64_t RingReduceImpl::MethodOf(const RingRequest& request) const {
  const Torus torus = TorusOf(channel_->size(), options_.columns);
  const std::string text = "ring " + std::to_string(torus.rows) + "x" +
                           std::to_string(torus.columns) +
                           " chunk=" + std::to_string(options_.chunk_bytes) +
                           " bytes=" + std::to_string(request.vector.size()) +
                           " contributors=" + std::to_string(request.contributors) + " " +
                           request.merge->spec() + " " + request.label;
  return Checksum64(std::as_bytes(std::span(text)));
}

void RingReduceImpl::Start(RingRequest request, std::function<void(Result<Buffer>)> done) {
  SHOAL_ASSERT_ON(*control_);
  if (Status status = CheckStart(request); !status.ok()) {
    control_->Post("ring.refused", [status, done = std::move(done)] { done(status); });
    return;
  }
  running_ = started_ = true;
  round_ = request.round;
  done_ = std::move(done);
  traffic_ = {};
  const std::uint64_t method = MethodOf(request);
  work_ = std::make_shared<Work>(Work{.vector = std::move(request.vector),
                                      .merge = std::move(request.merge),
                                      .ends = std::move(request.ends),
                                      .round = round_,
                                      .epoch = options_.epoch,
                                      .method = method,
                                      .member = channel_->rank()});
  Plan(request.contributors);
  if (open_ == 0) {
    OnCompute(
        "ring.alone", [work = work_] { return RunAlone(work.get()); },
        [this](Status status) {
          if (!status.ok()) return Finish(std::move(status));
          Finish(std::move(work_->vector));
        });
  }
  for (std::size_t s = 0; s < slices_.size(); ++s) {
    // From the end, where the elements are that closing the others waits for.
    for (std::size_t c = slices_[s].chunks.size(); c-- > 0;) Advance(s, c);
  }
  early_bytes_.clear();
  for (Early& early : std::exchange(early_, {})) {
    if (early.tag > round_) {
      HoldEarly(std::move(early));
      continue;
    }
    if (early.tag < round_) continue;
    control_->Post("ring.early", [this, epoch = epoch_, mine = epoch_->load(),
                                  held = std::make_shared<Early>(std::move(early))] {
      if (*epoch == mine) OnMessage(held->from, held->tag, std::move(held->message));
    });
  }
}

void RingReduceImpl::OnMessage(std::size_t from, std::uint64_t tag, Buffer message) {
  SHOAL_ASSERT_ON(*control_);
  const Result<RingHeader> header = ReadRingHeader(std::as_const(message).bytes());
  Status status = header.ok() ? Status::Ok() : header.status();
  if (status.ok() && header->epoch < options_.epoch) return;  // late
  if (status.ok() && (header->epoch != options_.epoch || header->round != tag)) {
    status = InvalidArgument("it belongs to round " + std::to_string(header->round) +
                             " of generation " + std::to_string(header->epoch) + ", not to round " +
                             std::to_string(tag) + " of " + std::to_string(options_.epoch));
  }
  if (!status.ok()) return Refuse(from, status);
  if (!started_ || tag > round_) return HoldEarly({from, tag, std::move(message)});
  if (!running_ || tag < round_) return;  // late
  const std::size_t slice = header->slice, chunk = header->chunk;
  if (Status placed = Place(from, *header, std::move(message)); !placed.ok()) {
    channel_->Blame(from, placed);
    return Finish(placed.WithContext("a message from member " + std::to_string(from) +
                                     " of the stage group"));
  }
  Advance(slice, chunk);
}

// A message that cannot be put right: something is lost, so no later operation could end either.
void RingReduceImpl::Refuse(std::size_t from, const Status& status) {
  channel_->Blame(from, status);
  broken_ =
      status.WithContext("a message from member " + std::to_string(from) + " of the stage group");
  early_.clear();
  early_bytes_.clear();
  Finish(broken_);
}

void RingReduceImpl::HoldEarly(Early early) {
  const std::size_t cost = early.message.size() + kEarlyMessageCost;
  std::size_t& held = early_bytes_[early.from];
  if (cost <= options_.early_bytes_max && held <= options_.early_bytes_max - cost) {
    held += cost;
    early_.push_back(std::move(early));
    return;
  }
  Refuse(early.from,
         ResourceExhausted("it is ahead by more bytes than the " +
                           std::to_string(options_.early_bytes_max) + " that are held"));
}

Status RingReduceImpl::Place(std::size_t from, const RingHeader& header, Buffer message) {
  const std::string advice = "; are all members in the same plan?";
  if (header.method != work_->method || header.kind != work_->merge->kind()) {
    return InvalidArgument("it has another vector, method or contributors than here" + advice);
  }
  if (header.slice >= slices_.size() || header.chunk >= slices_[header.slice].chunks.size()) {
    return InvalidArgument("it has chunk " + std::to_string(header.chunk) + " of slice " +
                           std::to_string(header.slice) + ", which does not exist" + advice);
  }
  Slice& slice = slices_[header.slice];
  const auto step = std::ranges::find_if(
      slice.steps, [&](const RingStep& s) { return s.phase == header.phase && s.from; });
  if (step == slice.steps.end() || *step->from != from || step->hop != header.hop + 1U) {
    return InvalidArgument("nothing is awaited from it for slice " + std::to_string(header.slice) +
                           " in phase " + std::to_string(static_cast<int>(header.phase)) + advice);
  }
  if (header.contributors != step->received) {
    return InvalidArgument("it stands for " + std::to_string(header.contributors) +
                           " members instead of " + std::to_string(step->received) + advice);
  }
  const std::size_t expected =
      ChunkExtent(slice, header.chunk).size() * work_->merge->element_bytes();
  if (message.size() - kRingHeaderBytes != expected) {
    return InvalidArgument("its payload has " + std::to_string(message.size() - kRingHeaderBytes) +
                           " bytes instead of " + std::to_string(expected) + advice);
  }
  Chunk& chunk = slice.chunks[header.chunk];
  const auto phase = static_cast<std::size_t>(header.phase);
  if (std::exchange(chunk.arrived[phase], true)) return InvalidArgument("it came twice");
  traffic_.received_bytes += message.size();
  ++traffic_.received_messages;
  chunk.held[phase] = std::move(message);
  return Status::Ok();
}

void RingReduceImpl::Advance(std::size_t slice_index, std::size_t chunk_index) {
  Slice& slice = slices_[slice_index];
  Chunk& chunk = slice.chunks[chunk_index];
  if (chunk.busy || chunk.next == slice.steps.size()) return;
  const RingStep& step = slice.steps[chunk.next];
  const auto phase = static_cast<std::size_t>(step.phase);
  if (step.from && !chunk.arrived[phase]) return;
  chunk.busy = true;
  const Extent extent = ChunkExtent(slice, chunk_index);
  ChunkTask task{.step = step,
                 .first = chunk.next == 0,
                 .slice = slice_index,
                 .chunk = chunk_index,
                 .in_slice = extent.begin,
                 .in_vector = slice.extent.begin + extent.begin,
                 .elements = extent.size(),
                 .message = std::move(chunk.held[phase])};
  OnCompute(
      step.gathers() ? "ring.adopt" : "ring.merge",
      [task = std::move(task), work = work_]() mutable {
        return RunStep(std::move(task), work.get());
      },
      [this, slice_index, chunk_index](Result<Buffer> message) {
        AfterStep(slice_index, chunk_index, std::move(message));
      });
}

void RingReduceImpl::AfterStep(std::size_t slice_index, std::size_t chunk_index,
                               Result<Buffer> message) {
  if (!message.ok()) return Finish(message.status());
  Slice& slice = slices_[slice_index];
  Chunk& chunk = slice.chunks[chunk_index];
  const RingStep& step = slice.steps[chunk.next];
  if (step.to) {
    traffic_.sent_bytes += message->size();
    ++traffic_.sent_messages;
    if (Status sent = channel_->Send(*step.to, round_, std::move(*message)); !sent.ok()) {
      return Finish(sent);
    }
  }
  chunk.busy = false;
  if (++chunk.next < slice.steps.size()) return Advance(slice_index, chunk_index);
  const Extent extent = ChunkExtent(slice, chunk_index);
  OnOutcome({slice.extent.begin + extent.begin, slice.extent.begin + extent.end});
}

void RingReduceImpl::OnOutcome(Extent chunk) {
  if (work_->ends == nullptr) {
    if (--open_ == 0) Finish(std::move(work_->vector));
    return;
  }
  if (IsSettledFirst(chunk)) --unsettled_;
  outcomes_.push_back(chunk);
  Close();
}

void RingReduceImpl::Close() {
  while (unsettled_ == 0 && closing_ < kClosingMax && !outcomes_.empty()) {
    const Extent chunk = outcomes_.front();
    outcomes_.pop_front();
    ++closing_;
    auto close = [work = work_, chunk] {
      return work->ends->Close(chunk.begin, chunk.size(), work->vector.bytes());
    };
    OnCompute("ring.close", std::move(close), [this](Status status) {
      if (!status.ok()) return Finish(std::move(status));
      --closing_;
      if (--open_ == 0) return Finish(std::move(work_->vector));
      Close();
    });
  }
}

std::vector<std::size_t> RingReduceImpl::Awaited() const {
  SHOAL_ASSERT_ON(*control_);
  std::vector<bool> awaited(channel_->size(), false);
  for (const Slice& slice : slices_) {
    for (const Chunk& chunk : slice.chunks) {
      if (chunk.busy || chunk.next == slice.steps.size()) continue;
      awaited[*slice.steps[chunk.next].from] = true;
    }
  }
  std::vector<std::size_t> members;
  for (std::size_t r = 0; r < awaited.size(); ++r) {
    if (awaited[r]) members.push_back(r);
  }
  return members;
}

void RingReduceImpl::Finish(Result<Buffer> result) {
  if (!running_) return;
  running_ = false;
  ++*epoch_;
  work_.reset();
  slices_.clear();
  outcomes_.clear();
  std::exchange(done_, nullptr)(std::move(result));  // last: it may destroy this
}

}  // namespace

std::unique_ptr<RingReduce> NewRingReduce(GroupChannel* channel, Executor* control,
                                          Executor* compute, const RingOptions& options) {
  return std::make_unique<RingReduceImpl>(channel, control, compute, options);
}

}  // namespace shoal::collective
