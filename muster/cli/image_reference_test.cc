#include "muster/cli/image_reference.h"

#include <gtest/gtest.h>

namespace muster::cli {
namespace {

const std::string kDigest = "@sha256:" + std::string(64, 'a');

TEST(ImageReference, IsANameWithATagAndADigest) {
  for (const std::string& text :
       {std::string("muster"), std::string("muster:1"), std::string("team/muster:1.2-rc_3"),
        std::string("registry.example/team/muster:Latest"), std::string("localhost:5000/muster"),
        std::string("[2001:db8::1]:5000/muster:1"), std::string("a__b/c-d--e/f.g:1"),
        std::string("REGISTRY.example:5000/muster"), "muster" + kDigest, "r/muster:1" + kDigest,
        std::string(255, 'a'), "muster:" + std::string(128, 't')})
    EXPECT_TRUE(is_image_reference(text)) << text;
}

TEST(ImageReference, IsNothingElse) {
  for (const std::string& text : {std::string(),
                                  std::string("x y"),
                                  std::string(" muster"),
                                  std::string("muster\n"),
                                  std::string("Muster:1"),
                                  std::string("r/Muster"),
                                  std::string("muster:"),
                                  std::string("muster:-1"),
                                  std::string("muster:1:2"),
                                  std::string("/muster"),
                                  std::string("muster/"),
                                  std::string("r//muster"),
                                  std::string("-muster"),
                                  std::string("muster_"),
                                  std::string("a___b"),
                                  std::string("a..b"),
                                  std::string("https://r/muster"),
                                  std::string("r:port/muster"),
                                  std::string("muster@sha256"),
                                  std::string("muster@sha256:abc"),
                                  std::string("muster:$TAG"),
                                  std::string("größe"),
                                  std::string(256, 'a'),
                                  "muster:" + std::string(129, 't'),
                                  std::string(5000, 'a')})
    EXPECT_FALSE(is_image_reference(text)) << text;
}

}  // namespace
}  // namespace muster::cli
