#include "muster/job/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::job {
namespace {

using ::testing::ElementsAre;

std::string why_not(std::string_view list) {
  const auto hosts = parse_hosts(list);
  return hosts ? "" : hosts.error().message;
}

TEST(HostList, AreNamesWithTheirSlots) {
  EXPECT_THAT(
      *parse_hosts("localhost:2, anna@node7:4,node8"),
      ElementsAre(HostSlots{"localhost", 2}, HostSlots{"anna@node7", 4}, HostSlots{"node8", 1}));
  EXPECT_THAT(
      *parse_hosts("[fe80::1%eth0]:3,fe80::2,10.0.0.5:2"),
      ElementsAre(HostSlots{"fe80::1%eth0", 3}, HostSlots{"fe80::2", 1}, HostSlots{"10.0.0.5", 2}));
  EXPECT_THAT(*parse_hosts("a,b,a:2"), ElementsAre(HostSlots{"a", 3}, HostSlots{"b", 1}));
}

TEST(HostList, AreReadBackAsTheyAreWritten) {
  for (const char* host : {"node7:4", "anna@node7:1", "[fe80::1%eth0]:3", "10.0.0.5:65536"})
    EXPECT_EQ(to_string(parse_hosts(host)->front()), host);
}

TEST(HostList, ThisHostWithoutANumberIsAsItIsAnyway) {
  EXPECT_TRUE(is_this_host_alone("localhost"));
  EXPECT_TRUE(is_this_host_alone("127.0.0.1"));
  for (const char* list : {"localhost:1", "localhost,node7", "node7", ""})
    EXPECT_FALSE(is_this_host_alone(list)) << list;
}

TEST(HostList, NothingThatAShellWouldTakeForSomethingElseIsAName) {
  for (const char* list : {"", "a,", "-oProxyCommand=x", "a b", "a;b", "$(b)", "a,'b'", "a\nb"})
    EXPECT_THAT(why_not(list), ::testing::HasSubstr("is no name of a host")) << list;
  for (const char* list : {"a:", "a:0", "a:x", "a:-1", "a:1x", "a:65537", "[::1]2"})
    EXPECT_THAT(why_not(list), ::testing::HasSubstr("expected a number of workers")) << list;
}

TEST(HostList, AFileHasALineForEach) {
  EXPECT_EQ(*hosts_of_file("# ours\nnode7 slots=4\n\nnode8   # old\nnode9:2"),
            "node7:4, node8, node9:2");
  EXPECT_THAT(hosts_of_file("a\nb cores=2\n").error().message, ::testing::HasSubstr("line 2"));
  EXPECT_THAT(hosts_of_file("a slots=none").error().message,
              ::testing::HasSubstr("expected a number of workers"));
  EXPECT_EQ(hosts_of_file("# nobody\n").error().message, "it names no host");
}

TEST(HostList, WorkersFillTheirSlotsInOrder) {
  const auto hosts = *parse_hosts("a:2,b:1,c:2");
  EXPECT_EQ(slots_of(hosts), 5);
  EXPECT_THAT(first_slots(hosts, 4), ElementsAre("a", "a", "b", "c"));
  EXPECT_THAT(first_slots(hosts, 5), ElementsAre("a", "a", "b", "c", "c"));
}

}  // namespace
}  // namespace muster::job
