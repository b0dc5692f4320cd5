#include "replica/collective/units/unit_exchange.h"

#include <algorithm>
#include <array>

#include "common/bytes.h"
#include "common/checksum.h"
#include "replica/collective/chunk_coders.h"
#include "replica/collective/exchange_message.h"

namespace shoal::collective {
namespace {

constexpr std::size_t kHeldMessageBytes = 256;  // what holding a message costs beside its bytes
constexpr std::size_t kWantedMax = 16;          // requests of a member for one piece that wait
// Keeps the random numbers apart from those of exchanges and boundaries under the same seed.
constexpr std::uint64_t kUnitSeed = 0x756e6974735f3031;

struct Coded {
  Status status;
  Buffer message;
};

std::span<const std::byte> PayloadOf(const Buffer& message) {
  return message.bytes().subspan(kUnitHeaderBytes);
}

Coded Seal(const ChunkCoder& coder, const UnitHeader& header, const compression::RandomKey& key,
           std::span<const float> values) {
  Coded coded;
  coded.message = Buffer(kUnitHeaderBytes + coder.BytesMax(values.size()));
  const Result<std::size_t> bytes =
      coder.Encode(values, key, coded.message.bytes().subspan(kUnitHeaderBytes));
  if (!bytes.ok()) {
    coded.status = bytes.status();
    return coded;
  }
  coded.message.Truncate(kUnitHeaderBytes + *bytes);
  SealUnitMessage(header, coded.message.bytes());
  return coded;
}

Status CheckConfig(const UnitExchangeConfig& config, const std::vector<UnitPiece>& pieces) {
  if (config.row == 0 || config.chunk_values == 0 || config.chunk_values % config.row != 0 ||
      config.chunk_values > UINT32_MAX || config.ahead_max == 0) {
    return InvalidArgument(
        "zero-3: chunk_values must be a multiple of row, and ahead_max at least 1");
  }
  const auto empty = [](const UnitPiece& piece) { return piece.values == 0; };
  if (pieces.size() > UINT32_MAX || std::any_of(pieces.begin(), pieces.end(), empty)) {
    return InvalidArgument("zero-3: a piece of parameters has no values");
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<UnitExchange>> UnitExchange::Make(const UnitExchangeConfig& config,
                                                         std::vector<UnitPiece> pieces,
                                                         GroupChannel* channel, Executor* control,
                                                         Executor* compute, Executor* codec,
                                                         std::shared_ptr<UnitOwner> owner,
                                                         Handlers handlers) {
  SHOAL_RETURN_IF_ERROR(CheckConfig(config, pieces));
  Coders coders;
  SHOAL_ASSIGN_OR_RETURN(coders.weights, MakeChunkCoder(config.weight_codec, config.row));
  SHOAL_ASSIGN_OR_RETURN(coders.gradients, MakeChunkCoder(config.gradient_codec, config.row));
  std::string method = "units/" + coders.weights->spec() + "/" + coders.gradients->spec() + "/" +
                       std::to_string(config.row) + "/" + std::to_string(config.chunk_values);
  for (const UnitPiece& piece : pieces) {
    method += "/" + std::to_string(piece.values) + (piece.coded ? "c" : "e");
  }
  return std::unique_ptr<UnitExchange>(
      new UnitExchange(config, std::move(pieces), std::move(coders), MethodId(method), channel,
                       control, compute, codec, std::move(owner), std::move(handlers)));
}

UnitExchange::UnitExchange(const UnitExchangeConfig& config, std::vector<UnitPiece> pieces,
                           Coders coders, std::uint64_t method, GroupChannel* channel,
                           Executor* control, Executor* compute, Executor* codec,
                           std::shared_ptr<UnitOwner> owner, Handlers handlers)
    : config_(config),
      pieces_(std::move(pieces)),
      exact_(*MakeChunkCoder(compression::kLosslessCodec, config.row)),
      coders_(std::move(coders)),
      method_(method),
      channel_(channel),
      control_(control),
      compute_(compute),
      codec_(codec),
      owner_(std::move(owner)),
      handlers_(std::move(handlers)),
      coded_(pieces_.size()),
      waiting_(pieces_.size()),
      held_bytes_(channel->size()),
      ended_(channel->size()),
      scope_(control) {
  const std::vector<double> shares(size(), 1.0);
  for (const UnitPiece& piece : pieces_) {
    layouts_.emplace_back(piece.values, shares, config_.row, config_.chunk_values);
    own_norms_.push_back(std::make_shared<LargestNorm>());
    usual_norms_.push_back(0);
  }
  channel_->SetReceiver([this](std::size_t from, std::uint64_t, Buffer message) {
    OnMessage(from, std::move(message));
  });
}

UnitExchange::~UnitExchange() { channel_->SetReceiver(nullptr); }

UnitHeader UnitExchange::HeaderOf(UnitKind kind) const {
  UnitHeader header;
  header.kind = kind;
  header.method = method_;
  header.step = step_;
  header.epoch = config_.epoch;
  return header;
}

// `from` codes; `to` owns the gradients, or is `from` where everybody gets the same bytes.
compression::RandomKey UnitExchange::KeyOf(const UnitHeader& header, std::size_t from,
                                           std::size_t to) const {
  std::array<std::byte, 6 * sizeof(std::uint64_t)> bytes;
  std::size_t at = 0;
  for (const std::uint64_t part :
       {config_.seed ^ kUnitSeed, std::uint64_t{header.piece}, std::uint64_t{header.part},
        std::uint64_t{header.chunk}, std::uint64_t{from}, std::uint64_t{to}}) {
    StoreLittle(bytes.data() + at, part);
    at += sizeof(part);
  }
  compression::RandomKey key;
  key.seed = Checksum64(bytes);
  key.step = header.step;
  key.micro_batch = header.micro_batch;
  key.boundary = static_cast<std::uint32_t>(header.kind);
  return key;
}

void UnitExchange::Fail(std::size_t from, const Status& status) {
  if (std::exchange(failed_, true)) return;
  if (from != rank()) channel_->Blame(from, status);
  handlers_.on_error(from == rank()
                         ? status
                         : status.WithContext("a message of member " + std::to_string(from) +
                                              " of the stage group"));
}

// ---- messages ----

Status UnitExchange::CheckHeader(std::size_t from, const UnitHeader& header) const {
  if (from >= size() || from == rank()) return InvalidArgument("the sender is not another member");
  if (header.method != method_ || header.epoch != config_.epoch) {
    return InvalidArgument(
        "it is of another plan or has other codecs; are all members "
        "of one version?");
  }
  if (header.piece >= pieces_.size()) {
    return InvalidArgument("it names piece " + std::to_string(header.piece) + " of " +
                           std::to_string(pieces_.size()));
  }
  if (!header.has_values()) return Status::Ok();
  const std::size_t owner = header.kind == UnitKind::kValues ? from : rank();
  const ShardLayout& layout = layouts_[header.piece];
  if (header.chunk >= layout.chunks(owner) ||
      header.values != layout.chunk(owner, header.chunk).size()) {
    return InvalidArgument("it names a chunk beyond its shard");
  }
  return Status::Ok();
}

void UnitExchange::OnMessage(std::size_t from, Buffer message) {
  SHOAL_ASSERT_ON(*control_);
  if (failed_) return;
  const Result<UnitHeader> header = ParseUnitMessage(message.bytes());
  if (!header.ok()) return Fail(from, header.status());
  if (Status status = CheckHeader(from, *header); !status.ok()) return Fail(from, status);
  if (ready_ && header->step < step_) {
    return Fail(
        from, InvalidArgument("it is of step " + std::to_string(header->step) + ", which is over"));
  }
  if (ready_ && header->step == step_) return Take(from, *header, std::move(message));
  Held held{from, *header, std::move(message)};
  if (!MayHold(held)) {
    return Fail(from,
                ResourceExhausted("messages for a later step exceed the limit of held bytes"));
  }
  held_.push_back(std::move(held));
}

bool UnitExchange::MayHold(const Held& held) {
  const std::size_t bytes = held.message.size() + kHeldMessageBytes;
  std::size_t& all = held_bytes_[held.from];
  if (bytes > config_.held_bytes_max || all > config_.held_bytes_max - bytes) return false;
  all += bytes;
  return true;
}

void UnitExchange::Take(std::size_t from, const UnitHeader& header, Buffer message) {
  switch (header.kind) {
    case UnitKind::kWanted: return Serve(from, header.vector, header.piece);
    case UnitKind::kValues: return OnValues(from, header, std::move(message));
    case UnitKind::kGradients:
      if (ended_[from])
        return Fail(from, InvalidArgument("gradients after the member's last ones"));
      return AddGradients(from, header, std::move(message));
    case UnitKind::kTaken:
      if (ahead_ == 0)
        return Fail(from, InvalidArgument("it acknowledges gradients that were not sent"));
      if (ahead_-- == config_.ahead_max) handlers_.on_room();
      return MaybeEnd();
    case UnitKind::kEnd:
      if (ended_[from]) return Fail(from, InvalidArgument("the member ended its gradients twice"));
      ended_[from] = true;
      return MaybeEnd();
  }
}

Status UnitExchange::Send(std::size_t to, const UnitHeader& header) {
  Buffer message(kUnitHeaderBytes);
  SealUnitMessage(header, message.bytes());
  return channel_->Send(to, header.step, std::move(message));
}

Status UnitExchange::SetWeightCodec(const std::string& spec) {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_ASSIGN_OR_RETURN(coders_.weights, MakeChunkCoder(spec, config_.row));
  return Status::Ok();
}

void UnitExchange::SetStep(std::uint64_t step) {
  SHOAL_ASSERT_ON(*control_);
  step_ = step;
  ready_ = true;
  ending_ = end_sent_ = false;
  ended_.assign(size(), false);
  for (auto& chunks : coded_) chunks.clear();
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    usual_norms_[piece] = own_norms_[piece]->largest();
    CodeShard(piece);
  }
  // What belongs to a later step yet is held again.
  for (Held& held : std::exchange(held_, {})) {
    held_bytes_[held.from] -= held.message.size() + kHeldMessageBytes;
    OnMessage(held.from, std::move(held.message));
  }
}

// ---- weights ----

// Once per step: all members get the same bytes.
void UnitExchange::CodeShard(std::size_t piece) {
  const ShardLayout& layout = layouts_[piece];
  const std::size_t chunks = layout.chunks(rank());
  coded_[piece].resize(chunks);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const ValueRange range = layout.chunk(rank(), chunk);
    UnitHeader header = HeaderOf(UnitKind::kValues);
    header.piece = static_cast<std::uint32_t>(piece);
    header.chunk = static_cast<std::uint32_t>(chunk);
    header.values = static_cast<std::uint32_t>(range.size());
    auto code = [owner = owner_, coder = pieces_[piece].coded ? coders_.weights : exact_, header,
                 range, key = KeyOf(header, rank(), rank())] {
      Buffer values(range.size() * sizeof(float));
      Coded coded;
      coded.status = owner->Read(UnitVector::kWeights, header.piece, range.begin, values.floats());
      if (coded.status.ok()) {
        coded = Seal(*coder, header, key, std::as_const(values).floats());
      }
      return coded;
    };
    scope_.Run(codec_, "units.code", std::move(code), [this, header](Coded coded) {
      if (header.step != step_) return;  // nobody wanted it in its step
      if (!coded.status.ok()) return Fail(rank(), coded.status);
      auto& all = coded_[header.piece];
      all[header.chunk] = std::make_shared<const Buffer>(std::move(coded.message));
      if (std::any_of(all.begin(), all.end(), [](const auto& one) { return one == nullptr; })) {
        return;
      }
      for (const std::size_t to : std::exchange(waiting_[header.piece], {})) {
        Serve(to, UnitVector::kWeights, header.piece);
      }
    });
  }
}

// `to` may be the own rank.
void UnitExchange::Serve(std::size_t to, UnitVector which, std::size_t piece) {
  const ShardLayout& layout = layouts_[piece];
  const std::size_t chunks = layout.chunks(rank());
  const auto& coded = coded_[piece];
  if (which == UnitVector::kWeights &&
      std::any_of(coded.begin(), coded.end(), [](const auto& one) { return one == nullptr; })) {
    auto& waiting = waiting_[piece];
    const auto asked = std::count(waiting.begin(), waiting.end(), to);
    if (static_cast<std::size_t>(asked) >= kWantedMax) {
      return Fail(to, ResourceExhausted("it asks for the same weights repeatedly"));
    }
    return waiting.push_back(to);
  }
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    UnitHeader header = HeaderOf(UnitKind::kValues);
    header.vector = which;
    header.piece = static_cast<std::uint32_t>(piece);
    header.chunk = static_cast<std::uint32_t>(chunk);
    header.values = static_cast<std::uint32_t>(layout.chunk(rank(), chunk).size());
    if (which != UnitVector::kWeights) {
      SendValues(to, header);
    } else if (to == rank()) {
      OnValues(to, header, Buffer::CopyOf(coded[chunk]->bytes()));
    } else {
      const Status status = channel_->Send(to, step_, Buffer::CopyOf(coded[chunk]->bytes()));
      if (!status.ok()) return Fail(rank(), status);
    }
  }
}

// Exact vectors are wanted at checkpoints only: they are read when they are.
void UnitExchange::SendValues(std::size_t to, const UnitHeader& header) {
  const ValueRange range = layouts_[header.piece].chunk(rank(), header.chunk);
  auto read = [owner = owner_, exact = exact_, header, range] {
    Buffer values(range.size() * sizeof(float));
    Coded coded;
    coded.status = owner->Read(header.vector, header.piece, range.begin, values.floats());
    if (coded.status.ok()) coded = Seal(*exact, header, {}, std::as_const(values).floats());
    return coded;
  };
  scope_.Run(codec_, "units.read", std::move(read), [this, to, header](Coded coded) {
    if (!coded.status.ok()) return Fail(rank(), coded.status);
    if (to == rank()) return OnValues(to, header, std::move(coded.message));
    const Status status = channel_->Send(to, header.step, std::move(coded.message));
    if (!status.ok()) Fail(rank(), status);
  });
}

void UnitExchange::Pull(UnitVector which, std::size_t piece, std::function<void(Buffer)> done) {
  SHOAL_ASSERT_ON(*control_);
  const ShardLayout& layout = layouts_[piece];
  Pulling pulling;
  pulling.values = std::make_shared<Buffer>(layout.values() * sizeof(float));
  pulling.done = std::move(done);
  for (std::size_t member = 0; member < size(); ++member) {
    pulling.have.emplace_back(layout.chunks(member));
    pulling.left.push_back(layout.chunks(member));
    pulling.decoding += layout.chunks(member);
  }
  const bool added = pulls_.emplace(PullKey{which, piece}, std::move(pulling)).second;
  SHOAL_CHECK(added && ready_);
  UnitHeader header = HeaderOf(UnitKind::kWanted);
  header.vector = which;
  header.piece = static_cast<std::uint32_t>(piece);
  for (std::size_t member = 0; member < size(); ++member) {
    if (layout.chunks(member) == 0) continue;
    if (member == rank()) {
      Serve(member, which, piece);
    } else if (Status status = Send(member, header); !status.ok()) {
      return Fail(rank(), status);
    }
  }
}

void UnitExchange::OnValues(std::size_t from, const UnitHeader& header, Buffer message) {
  const PullKey key{header.vector, header.piece};
  const auto found = pulls_.find(key);
  if (found == pulls_.end() || found->second.have[from][header.chunk]) {
    return Fail(from, InvalidArgument("values that were not requested"));
  }
  Pulling& pulling = found->second;
  pulling.have[from][header.chunk] = true;
  --pulling.left[from];
  const bool weights = header.vector == UnitVector::kWeights && pieces_[header.piece].coded;
  auto decode = [coder = weights ? coders_.weights : exact_,
                 message = std::make_shared<const Buffer>(std::move(message)),
                 random = KeyOf(header, from, from), values = pulling.values,
                 range = layouts_[header.piece].chunk(from, header.chunk)] {
    return coder->Decode(PayloadOf(*message), random,
                         values->floats().subspan(range.begin, range.size()));
  };
  scope_.Run(codec_, "units.decode", std::move(decode), [this, key, from](const Status& status) {
    if (!status.ok()) return Fail(from, status);
    Decoded(key);
  });
}

void UnitExchange::Decoded(const PullKey& key) {
  const auto found = pulls_.find(key);
  if (--found->second.decoding > 0) return;
  const std::shared_ptr<Buffer> values = found->second.values;
  const auto done = std::move(found->second.done);
  pulls_.erase(found);
  if (!failed_) done(std::move(*values));
}

// ---- gradients ----

void UnitExchange::Push(std::uint32_t micro_batch, std::uint32_t part, std::size_t piece,
                        std::shared_ptr<const Buffer> gradients) {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_CHECK(ready_ && !ending_ && gradients->floats().size() == pieces_[piece].values);
  const ShardLayout& layout = layouts_[piece];
  for (std::size_t member = 0; member < size(); ++member) {
    for (std::size_t chunk = 0; chunk < layout.chunks(member); ++chunk) {
      UnitHeader header = HeaderOf(UnitKind::kGradients);
      header.piece = static_cast<std::uint32_t>(piece);
      header.micro_batch = micro_batch;
      header.part = part;
      header.chunk = static_cast<std::uint32_t>(chunk);
      header.values = static_cast<std::uint32_t>(layout.chunk(member, chunk).size());
      PushChunk(header, member, gradients);
    }
  }
}

void UnitExchange::PushChunk(const UnitHeader& header, std::size_t to,
                             std::shared_ptr<const Buffer> values) {
  ++coding_;
  if (to != rank()) ++ahead_;
  const ValueRange range = layouts_[header.piece].chunk(to, header.chunk);
  auto code = [coder = pieces_[header.piece].coded ? coders_.gradients : exact_, header, range,
               norms = config_.alike ? own_norms_[header.piece] : nullptr,
               key = KeyOf(header, rank(), to), values = std::move(values)] {
    const auto own = values->floats().subspan(range.begin, range.size());
    if (norms) norms->Add(HostNorm(own));
    return Seal(*coder, header, key, own);
  };
  scope_.Run(codec_, "gradients.code", std::move(code), [this, to, header](Coded coded) {
    if (!coded.status.ok()) return Fail(rank(), coded.status);
    Pushed(to, header, std::move(coded.message));
  });
}

void UnitExchange::Pushed(std::size_t to, const UnitHeader& header, Buffer message) {
  --coding_;
  if (to == rank()) {
    AddGradients(to, header, std::move(message));
  } else if (Status status = channel_->Send(to, header.step, std::move(message)); !status.ok()) {
    return Fail(rank(), status);
  }
  MaybeEnd();
}

void UnitExchange::AddGradients(std::size_t from, const UnitHeader& header, Buffer message) {
  ++adding_;
  auto add = [owner = owner_, header,
              coder = pieces_[header.piece].coded ? coders_.gradients : exact_,
              range = layouts_[header.piece].chunk(rank(), header.chunk),
              key = KeyOf(header, from, rank()),
              usual = config_.alike && from != rank() ? usual_norms_[header.piece] : 0,
              message = std::make_shared<const Buffer>(std::move(message))]() -> Status {
    Buffer values(range.size() * sizeof(float));
    SHOAL_RETURN_IF_ERROR(coder->Decode(PayloadOf(*message), key, values.floats()));
    if (usual > 0) {
      const double norm = HostNorm(std::as_const(values).floats());
      SHOAL_RETURN_IF_ERROR(CheckContribution(norm, usual));
    }
    return owner->Add(header.piece, range.begin, std::as_const(values).floats());
  };
  scope_.Run(compute_, "gradients.add", std::move(add), [this, from, header](Status status) {
    if (!status.ok()) return Fail(from, status);
    --adding_;
    if (from != rank()) {
      UnitHeader taken = HeaderOf(UnitKind::kTaken);
      taken.piece = header.piece;
      status = Send(from, taken);
      if (!status.ok()) return Fail(rank(), status);
    }
    MaybeEnd();
  });
}

void UnitExchange::End() {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_CHECK(ready_ && !ending_);
  ending_ = true;
  MaybeEnd();
}

void UnitExchange::MaybeEnd() {
  if (failed_ || !ending_ || coding_ > 0) return;
  if (!std::exchange(end_sent_, true)) {
    ended_[rank()] = true;
    for (std::size_t member = 0; member < size(); ++member) {
      if (member == rank()) continue;
      const Status status = Send(member, HeaderOf(UnitKind::kEnd));
      if (!status.ok()) return Fail(rank(), status);
    }
  }
  const bool all = std::all_of(ended_.begin(), ended_.end(), [](bool ended) { return ended; });
  // Also what others took of this member's: so no message of the step comes behind its end.
  if (all && adding_ == 0 && ahead_ == 0 && std::exchange(ending_, false)) handlers_.on_complete();
}

std::vector<std::size_t> UnitExchange::Awaited() const {
  SHOAL_ASSERT_ON(*control_);
  std::vector<std::size_t> members;
  for (std::size_t member = 0; member < size(); ++member) {
    bool awaited = end_sent_ && !ended_[member];
    for (const auto& [key, pulling] : pulls_) awaited = awaited || pulling.left[member] > 0;
    if (awaited && member != rank()) members.push_back(member);
  }
  return members;
}

}  // namespace shoal::collective
