/* fixture.c: see fixture.h. What each does is written in the suite's scenarios. */
#include "wire/mcp/fixture.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define PNG "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
#define WAV "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
#define PAUSE_US 50000
#define NO_ARGUMENTS "{\"type\":\"object\",\"properties\":{}}"

/* ---- helpers ---- */

pd_code fixture_say(pd_mcp_turn *turn, const char *fmt, ...)
{
  char text[4096];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  pd_json_key(&turn->w, "content");
  pd_json_open(&turn->w, '[');
  pd_mcp_text_block(&turn->w, pd_text(text));
  pd_json_close(&turn->w, ']');
  return turn->w.code;
}

pd_code fixture_text(pd_mcp_turn *turn, pd_json arguments, const char *name, pd_buf *out)
{
  pd_json value = pd_json_member(arguments, name);
  if (value.kind == PD_JSON_STRING) TRY(pd_json_decode(value, out, &turn->err));
  return pd_buf_byte(out, 0, &turn->err);
}

static pd_code give(pd_mcp_turn *turn, const char *members)
{
  pd_json_raw(&turn->w, pd_text(members));
  return turn->w.code;
}

/* ---- tools ---- */

/* Answers that are always the same. */
static const struct {
  const char *name, *members;
} plain[] = {
  {"test_simple_text", "\"content\":[{\"type\":\"text\",\"text\":\"This is a simple text response for testing.\"}]"},
  {"test_image_content", "\"content\":[{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}]"},
  {"test_audio_content", "\"content\":[{\"type\":\"audio\",\"data\":\"" WAV "\",\"mimeType\":\"audio/wav\"}]"},
  {"test_embedded_resource", "\"content\":[{\"type\":\"resource\",\"resource\":{\"uri\":\"test://embedded-resource\",\"mimeType\":"
                             "\"text/plain\",\"text\":\"This is an embedded resource content.\"}}]"},
  {"test_multiple_content_types",
   "\"content\":[{\"type\":\"text\",\"text\":\"Multiple content types test:\"},{\"type\":\"image\",\"data\":\"" PNG
   "\",\"mimeType\":\"image/png\"},{\"type\":\"resource\",\"resource\":{\"uri\":\"test://mixed-content-resource\",\"mimeType\":"
   "\"application/json\",\"text\":\"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"}}]"},
  {"test_error_handling",
   "\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"This tool intentionally returns an error for testing\"}]"},
};

static pd_code call_logging(pd_mcp_turn *turn)
{
  static const char *const lines[] = {"Tool execution started", "Tool processing data", "Tool execution completed"};
  for (size_t i = 0; i < COUNT_OF(lines); i++) {
    if (i) usleep(PAUSE_US);
    pd_mcp_log(turn, PD_MCP_INFO, "fixture", pd_text(lines[i]));
  }
  return fixture_say(turn, "Logged three lines.");
}

static pd_code call_progress(pd_mcp_turn *turn)
{
  for (uint64_t done = 0; done <= 100; done += 50) {
    if (done) usleep(PAUSE_US);
    pd_mcp_progress(turn, done, 100);
  }
  return fixture_say(turn, "Went from 0 to 100.");
}

static pd_code call_tool_change(pd_mcp_turn *turn)
{
  pd_mcp_changed(turn->mcp, NULL, PD_MCP_TOOLS);
  return fixture_say(turn, "The tools changed.");
}

static pd_code call_prompt_change(pd_mcp_turn *turn)
{
  pd_mcp_changed(turn->mcp, NULL, PD_MCP_PROMPTS);
  return fixture_say(turn, "The prompts changed.");
}

static pd_code call_missing_capability(pd_mcp_turn *turn)
{
  if (!(turn->client & PD_MCP_SAMPLES)) return pd_mcp_refuse_client(turn, "sampling");
  return fixture_say(turn, "The client can sample.");
}

static pd_code call_schema(pd_mcp_turn *turn)
{
  return fixture_say(turn, "Its schema is what matters.");
}

static const struct {
  const char *name;
  pd_code (*run)(pd_mcp_turn *turn);
} active[] = {
  {"test_tool_with_logging", call_logging},           {"test_logging_tool", call_logging},
  {"test_tool_with_progress", call_progress},         {"test_trigger_tool_change", call_tool_change},
  {"test_trigger_prompt_change", call_prompt_change}, {"test_missing_capability", call_missing_capability},
  {"json_schema_2020_12_tool", call_schema},
};

static const char *schema_of(const char *name)
{
  if (strcmp(name, "test_sampling") == 0)
    return "{\"type\":\"object\",\"properties\":{\"prompt\":{\"type\":\"string\"}},\"required\":[\"prompt\"]}";
  if (strcmp(name, "test_elicitation") == 0)
    return "{\"type\":\"object\",\"properties\":{\"message\":{\"type\":\"string\"}},\"required\":[\"message\"]}";
  if (strcmp(name, "json_schema_2020_12_tool") == 0)
    return "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\",\"$defs\":{\"address\":{\"$anchor\":"
           "\"addressDef\",\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},"
           "\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},\"contactMethod\":{\"type\":"
           "\"string\",\"enum\":[\"phone\",\"email\"]},\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},\"allOf\":[{"
           "\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],\"if\":{\"properties\":{\"contactMethod\":{\"const\":"
           "\"phone\"}},\"required\":[\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},"
           "\"additionalProperties\":false}";
  return NO_ARGUMENTS;
}

static void list_one(pd_mcp_turn *turn, const char *name)
{
  pd_json_open(&turn->w, '{');
  pd_json_put_text(&turn->w, "name", name);
  pd_json_put_text(&turn->w, "description", "A fixture of the conformance suite.");
  pd_json_key(&turn->w, "inputSchema");
  pd_json_raw(&turn->w, pd_text(schema_of(name)));
  pd_json_close(&turn->w, '}');
}

static pd_code list_tools(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor)
{
  (void)out_cursor;
  if (cursor.data) return pd_mcp_refuse_cursor(turn);
  for (size_t i = 0; i < COUNT_OF(plain); i++) list_one(turn, plain[i].name);
  for (size_t i = 0; i < COUNT_OF(active); i++) list_one(turn, active[i].name);
  for (size_t i = 0; fixture_ask_tools[i]; i++) list_one(turn, fixture_ask_tools[i]);
  return turn->w.code;
}

static pd_code call_tool(pd_mcp_turn *turn, const char *name, pd_json arguments)
{
  for (size_t i = 0; i < COUNT_OF(plain); i++)
    if (strcmp(plain[i].name, name) == 0) return give(turn, plain[i].members);
  for (size_t i = 0; i < COUNT_OF(active); i++)
    if (strcmp(active[i].name, name) == 0) return active[i].run(turn);
  pd_code code = fixture_ask_call(turn, name, arguments);
  return code == PD_NOT_FOUND ? pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "there is no tool %.100s", name) : code;
}

/* ---- resources ---- */

static pd_code list_resources(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor)
{
  (void)out_cursor;
  if (cursor.data) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "there is one page");
  return give(turn, "{\"uri\":\"test://static-text\",\"name\":\"Text\",\"description\":\"A text.\",\"mimeType\":\"text/plain\"},{\"uri\":"
                    "\"test://static-binary\",\"name\":\"Binary\",\"description\":\"An image.\",\"mimeType\":\"image/png\"},{\"uri\":"
                    "\"test://watched-resource\",\"name\":\"Watched\",\"description\":\"Changes.\",\"mimeType\":\"text/plain\"}");
}

static pd_code list_templates(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor)
{
  (void)out_cursor;
  if (cursor.data) return pd_mcp_refuse_cursor(turn);
  return give(turn, "{\"uriTemplate\":\"test://template/{id}/data\",\"name\":\"Template\",\"description\":\"A template.\",\"mimeType\":"
                    "\"application/json\"}");
}

static pd_code read_template(pd_mcp_turn *turn, const char *uri, const char *id)
{
  char text[256];
  snprintf(text, sizeof text, "{\"id\":\"%s\",\"templateTest\":true,\"data\":\"Data for ID: %s\"}", id, id);
  pd_json_open(&turn->w, '{');
  pd_json_put_text(&turn->w, "uri", uri);
  pd_json_put_text(&turn->w, "mimeType", "application/json");
  pd_json_put_text(&turn->w, "text", text);
  pd_json_close(&turn->w, '}');
  return turn->w.code;
}

static pd_code read_resource(pd_mcp_turn *turn, const char *uri)
{
  char id[33] = "", data[512];
  int end = 0;
  if (strcmp(uri, "test://static-text") == 0)
    return give(turn, "{\"uri\":\"test://static-text\",\"mimeType\":\"text/plain\",\"text\":\"This is the content of the static text "
                      "resource.\"}");
  if (strcmp(uri, "test://static-binary") == 0)
    return give(turn, "{\"uri\":\"test://static-binary\",\"mimeType\":\"image/png\",\"blob\":\"" PNG "\"}");
  if (strcmp(uri, "test://watched-resource") == 0)
    return give(turn, "{\"uri\":\"test://watched-resource\",\"mimeType\":\"text/plain\",\"text\":\"Watched.\"}");
  if (sscanf(uri, "test://template/%32[A-Za-z0-9_-]/data%n", id, &end) == 1 && end && !uri[end]) return read_template(turn, uri, id);
  snprintf(data, sizeof data, "\"uri\":\"%.400s\"", strpbrk(uri, "\"\\") ? "" : uri);
  return pd_mcp_refuse_with(turn, turn->is_modern ? PD_MCP_INVALID_PARAMS : PD_MCP_RESOURCE_NOT_FOUND, pd_text(data), "resource not found");
}

/* ---- prompts ---- */

static pd_code list_prompts(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor)
{
  (void)out_cursor;
  if (cursor.data) return pd_mcp_refuse_cursor(turn);
  return give(turn, "{\"name\":\"test_simple_prompt\",\"description\":\"Simple.\"},{\"name\":\"test_prompt_with_arguments\","
                    "\"description\":\"With arguments.\",\"arguments\":[{\"name\":\"arg1\",\"description\":\"First\",\"required\":true},{"
                    "\"name\":\"arg2\",\"description\":\"Second\",\"required\":true}]},{\"name\":\"test_prompt_with_embedded_resource\","
                    "\"description\":\"With a resource.\",\"arguments\":[{\"name\":\"resourceUri\",\"description\":\"Which\",\"required\":"
                    "true}]},{\"name\":\"test_prompt_with_image\",\"description\":\"With an image.\"},{\"name\":"
                    "\"test_input_required_result_prompt\",\"description\":\"Asks.\"}");
}

static pd_code say_prompt(pd_mcp_turn *turn, const char *first, const char *text)
{
  pd_json_key(&turn->w, "messages");
  pd_json_open(&turn->w, '[');
  if (first) pd_json_raw(&turn->w, pd_text(first));
  pd_json_open(&turn->w, '{');
  pd_json_put_text(&turn->w, "role", "user");
  pd_json_key(&turn->w, "content");
  pd_mcp_text_block(&turn->w, pd_text(text));
  pd_json_close(&turn->w, '}');
  pd_json_close(&turn->w, ']');
  return turn->w.code;
}

static pd_code get_prompt(pd_mcp_turn *turn, const char *name, pd_json arguments)
{
  char text[1024];
  CLEANUP(pd_buf_done) pd_buf one = {0};
  CLEANUP(pd_buf_done) pd_buf two = {0};
  if (strcmp(name, "test_simple_prompt") == 0) return say_prompt(turn, NULL, "This is a simple prompt for testing.");
  if (strcmp(name, "test_input_required_result_prompt") == 0) return fixture_ask_prompt(turn);
  if (strcmp(name, "test_prompt_with_image") == 0)
    return say_prompt(turn, "{\"role\":\"user\",\"content\":{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}}",
                      "Please analyze the image above.");
  if (strcmp(name, "test_prompt_with_arguments") == 0) {
    TRY(fixture_text(turn, arguments, "arg1", &one));
    TRY(fixture_text(turn, arguments, "arg2", &two));
    snprintf(text, sizeof text, "Prompt with arguments: arg1='%.400s', arg2='%.400s'", (char *)one.data, (char *)two.data);
    return say_prompt(turn, NULL, text);
  }
  if (strcmp(name, "test_prompt_with_embedded_resource") != 0) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "there is no such prompt");
  TRY(fixture_text(turn, arguments, "resourceUri", &one));
  snprintf(text, sizeof text,
           "{\"role\":\"user\",\"content\":{\"type\":\"resource\",\"resource\":{\"uri\":\"%.400s\",\"mimeType\":\"text/plain\",\"text\":"
           "\"Embedded resource content for testing.\"}}}",
           (char *)one.data);
  return say_prompt(turn, text, "Please process the embedded resource above.");
}

static pd_code complete(pd_mcp_turn *turn, pd_json reference, const char *argument, pd_bytes value)
{
  (void)reference, (void)argument, (void)value;
  return give(turn, "\"values\":[\"test\",\"testing\"],\"total\":2,\"hasMore\":false");
}

const pd_mcp_provider fixture = {
  .name = "perdure-fixture",
  .title = "perdure with the fixtures of the conformance suite",
  .version = "0.1.0",
  .instructions = "For tests.",
  .changes = PD_MCP_TOOLS | PD_MCP_PROMPTS,
  .tools = list_tools,
  .call = call_tool,
  .resources = list_resources,
  .templates = list_templates,
  .read = read_resource,
  .prompts = list_prompts,
  .prompt = get_prompt,
  .complete = complete,
};
