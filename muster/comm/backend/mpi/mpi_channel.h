#pragma once
// One connection over MPI: frames that come and go with whole messages. Everything on the loop's
// thread; MpiConnection (mpi_network.cc) is what others hold of it.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "muster/base/log.h"
#include "muster/comm/backend/mpi/mpi_messages.h"
#include "muster/net/network.h"

namespace muster::comm {

// What every message begins with. Both ends number their connections themselves.
struct MpiEnvelope {
  enum Kind : std::uint32_t {
    kOpen,    // to: a port; from: the sender's connection
    kAccept,  // answers it; from: the one at this end
    kRefuse,  // answers it
    kFrame,   // a header and its payload follow
    kClose,   // nothing more comes
  };
  std::uint32_t kind = kOpen;
  std::uint32_t to = 0;  // what it is for at the receiver
  std::uint32_t from = 0;
  std::uint32_t reserved = 0;
  std::uint64_t job = 0;
};

class MpiChannel;

// What all connections of a process share.
struct MpiShared {
  std::unique_ptr<net::SystemLoop> loop;
  MusterMpi* mpi = nullptr;
  net::FramePolicy policy;
  Logger log;
  net::Counters counters;
  std::unique_ptr<MpiMessages> messages;  // the loop's thread only, as below
  std::map<std::uint32_t, std::shared_ptr<MpiChannel>> channels;
  std::uint32_t last_channel = 0;

  void tell(int rank, MpiEnvelope::Kind kind, std::uint32_t to, std::uint32_t from);
};

// A process and what is meant there.
struct MpiPeer {
  int rank = 0;
  std::uint32_t channel = 0;
  net::Address address;  // as errors name it
};

class MpiChannel : public std::enable_shared_from_this<MpiChannel> {
 public:
  // `own`: its number in `shared`, which outlives it.
  MpiChannel(MpiShared& shared, std::uint32_t own, MpiPeer peer);

  const MpiPeer& peer() const noexcept { return peer_; }

  void arrive(MpiMemory::Piece message);  // envelope and frame
  void peer_closed();

  // As net::Connection says.
  void start(std::shared_ptr<net::Receiver> receiver);
  void send(MpiMemory::Piece message, net::SendDone done);
  void receive_into(std::span<std::byte> destination);
  void refuse_before(Generation oldest) { policy_.oldest = oldest; }
  void shut(const Error& why);
  void finish(Deadline deadline);
  void drop();  // its owner has gone

 private:
  void read();
  bool begin_frame();  // false: no further now
  bool end_frame(std::span<std::byte> place);
  void refuse(const Error& why);
  void left(std::uint64_t number, const Status& status);
  Error lost(std::string_view reason) const;

  MpiShared& shared_;
  const std::uint32_t own_;
  const MpiPeer peer_;
  net::FramePolicy policy_;
  std::shared_ptr<net::Receiver> receiver_;
  std::deque<MpiMemory::Piece> waiting_;  // what has come
  net::FrameHeader header_;               // of the first of them
  bool paused_ = false;
  std::optional<Error> ended_;  // after what waits
  std::uint64_t sent_ = 0;
  std::map<std::uint64_t, net::SendDone> leaving_;
  bool finishing_ = false;
  net::Registration finish_timer_;
  bool closed_ = false;
};

}  // namespace muster::comm
