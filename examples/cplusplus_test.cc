// cplusplus_test.cc: perdure.h is usable from C++: it compiles with all warnings, and links. TAP.
#include <perdure/backend.h>
#include <perdure/perdure.h>

#include <cstdio>
#include <string>

static bool is_round_trip()
{
  pd_store *store = nullptr;
  pd_error err{};
  if (pd_store_open("memory:", "main", nullptr, &store, &err) != PD_OK) return false;
  pd_ack ack{};
  pd_buf value{};
  bool is_right = pd_put(store, pd_text("greeting"), pd_text("hello"), nullptr, &ack, &err) == PD_OK &&
                  pd_get(store, nullptr, pd_text("greeting"), &value, nullptr, &err) == PD_OK &&
                  std::string(reinterpret_cast<char *>(value.data), value.size) == "hello";
  pd_buf_done(&value);
  return pd_store_close(store, &err) == PD_OK && is_right;
}

int main()
{
  bool is_right = is_round_trip();
  std::printf("1..1\n%sok 1 - cplusplus__puts_and_gets\n", is_right ? "" : "not ");
  return is_right ? 0 : 1;
}
