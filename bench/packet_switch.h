// A DelaySwitch between network devices of this namespace, by Linux packet sockets.

#ifndef SHOAL_BENCH_PACKET_SWITCH_H_
#define SHOAL_BENCH_PACKET_SWITCH_H_

#include <functional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"

namespace shoal::bench {

// Carries Ethernet frames between `devices`, each after `delay`, until it fails; calls `ready` once
// frames are carried. The devices are up and have no addresses of their own. Takes root.
//
// Frames pass as the kernel has them, also larger than a packet and without finished checksums (the
// header of virtio-net tells), so a fast line costs little. Nothing is dropped here: what is too
// much for the device it leaves by is dropped by that device's queueing discipline, as in a router.
// A frame may leave a fortieth of the delay, at most half a millisecond, too early or too late.
Status RunPacketSwitch(const std::vector<std::string>& devices, Duration delay,
                       const std::function<void()>& ready);

}  // namespace shoal::bench

#endif  // SHOAL_BENCH_PACKET_SWITCH_H_
