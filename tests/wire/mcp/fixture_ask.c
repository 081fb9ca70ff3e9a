/* fixture_ask.c: the fixtures that ask the client: elicitation, sampling, roots; one round and more. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/mcp/fixture.h"

#include <stdio.h>

#define FORM(message, properties, required)                                                                                                \
  "{\"message\":\"" message "\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "]}}"
#define NAME_FORM FORM("What is your name?", "\"name\":{\"type\":\"string\"}", "\"name\"")
#define OK_FORM FORM("Please confirm", "\"ok\":{\"type\":\"boolean\"}", "\"ok\"")
#define QUESTION(text, tokens)                                                                                                             \
  "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"" text "\"}}],\"maxTokens\":" tokens "}"

/* A tool that asks and then says what it was told. */
typedef struct asking {
  const char *tool;
  struct {
    const char *name, *method, *params;
  } asks[4];
  bool needs_state;
  const char *said; /* before the answer */
} asking;

static const asking table[] = {
  {"test_elicitation_sep1034_defaults",
   {{"defaults", "elicitation/create",
     FORM("Please check",
          "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},\"age\":{\"type\":\"integer\",\"default\":30},\"score\":{\"type\":"
          "\"number\",\"default\":95.5},\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],\"default\":"
          "\"active\"},\"verified\":{\"type\":\"boolean\",\"default\":true}",
          "")}},
   false,
   "Elicitation completed: "},
  {"test_elicitation_sep1330_enums",
   {{"enums", "elicitation/create",
     FORM("Please choose",
          "\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\",\"option3\"]},\"titledSingle\":{\"type\":\"string\","
          "\"oneOf\":[{\"const\":\"value1\",\"title\":\"First Option\"},{\"const\":\"value2\",\"title\":\"Second Option\"}]},"
          "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],\"enumNames\":[\"Option One\",\"Option Two\","
          "\"Option Three\"]},\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\","
          "\"option3\"]}},\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"value1\",\"title\":\"First Choice\"},{"
          "\"const\":\"value2\",\"title\":\"Second Choice\"}]}}",
          "")}},
   false,
   "Elicitation completed: "},
  {"test_streaming_elicitation", {{"user_name", "elicitation/create", NAME_FORM}}, false, "Heard: "},
  {"test_input_required_result_elicitation", {{"user_name", "elicitation/create", NAME_FORM}}, false, "Hello: "},
  {"test_input_required_result_sampling",
   {{"capital_question", "sampling/createMessage", QUESTION("What is the capital of France?", "100")}},
   false,
   "Sampled: "},
  {"test_input_required_result_list_roots", {{"client_roots", "roots/list", "{}"}}, false, "Roots: "},
  {"test_input_required_result_request_state", {{"confirm", "elicitation/create", OK_FORM}}, true, "state-ok "},
  {"test_input_required_result_tampered_state", {{"confirm", "elicitation/create", OK_FORM}}, true, "state-ok "},
  {"test_input_required_result_multiple_inputs",
   {{"user_name", "elicitation/create", NAME_FORM},
    {"greeting", "sampling/createMessage", QUESTION("Generate a greeting", "50")},
    {"client_roots", "roots/list", "{}"}},
   true,
   "All: "},
  {"test_input_required_result_capabilities",
   {{"user_name", "elicitation/create", NAME_FORM}, {"greeting", "sampling/createMessage", QUESTION("Generate a greeting", "50")}},
   false,
   "Some: "},
};

const char *const fixture_ask_tools[] = {
  "test_sampling",
  "test_elicitation",
  "test_elicitation_sep1034_defaults",
  "test_elicitation_sep1330_enums",
  "test_streaming_elicitation",
  "test_input_required_result_elicitation",
  "test_input_required_result_sampling",
  "test_input_required_result_list_roots",
  "test_input_required_result_request_state",
  "test_input_required_result_tampered_state",
  "test_input_required_result_multiple_inputs",
  "test_input_required_result_capabilities",
  "test_input_required_result_multi_round",
  NULL,
};

static unsigned needs(const char *method)
{
  if (strcmp(method, "elicitation/create") == 0) return PD_MCP_ELICITS;
  return strcmp(method, "sampling/createMessage") == 0 ? PD_MCP_SAMPLES : PD_MCP_HAS_ROOTS;
}

/* The questions that the client can answer, and has not. */
static pd_code ask_all(pd_mcp_turn *turn, const asking *a, size_t *out_missing)
{
  for (size_t i = 0; a->asks[i].name; i++) {
    if (!(turn->client & needs(a->asks[i].method))) continue;
    if (pd_mcp_answer(turn, a->asks[i].name).kind == PD_JSON_OBJECT) continue;
    TRY(pd_mcp_ask(turn, a->asks[i].name, a->asks[i].method, a->asks[i].params));
    (*out_missing)++;
  }
  return PD_OK;
}

static pd_code call_asking(pd_mcp_turn *turn, const asking *a)
{
  size_t missing = 0;
  if (a->needs_state && turn->inputs.kind != PD_JSON_NONE && !turn->has_state)
    return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "requestState is missing");
  TRY(ask_all(turn, a, &missing));
  if (missing) return pd_mcp_keep(turn, pd_text(a->tool));
  if (a->needs_state && !pd_bytes_equal(turn->state, pd_text(a->tool))) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "another state");
  return fixture_say(turn, "%s%.*s", a->said, (int)(turn->inputs.raw.size < 2000 ? turn->inputs.raw.size : 2000),
                     (const char *)turn->inputs.raw.data);
}

static pd_code call_rounds(pd_mcp_turn *turn)
{
  if (!turn->has_state) {
    TRY(pd_mcp_ask(turn, "step1", "elicitation/create", FORM("Step 1: What is your name?", "\"name\":{\"type\":\"string\"}", "\"name\"")));
    return pd_mcp_keep(turn, pd_text("1"));
  }
  if (pd_bytes_equal(turn->state, pd_text("1"))) {
    TRY(pd_mcp_ask(turn, "step2", "elicitation/create",
                   FORM("Step 2: What is your favorite color?", "\"color\":{\"type\":\"string\"}", "\"color\"")));
    return pd_mcp_keep(turn, pd_text("2"));
  }
  return fixture_say(turn, "All three rounds are done.");
}

/* The text is the caller's own: written as JSON. */
static pd_code call_with_text(pd_mcp_turn *turn, pd_json arguments, bool is_sampling)
{
  CLEANUP(pd_buf_done) pd_buf params = {0};
  pd_json_writer w = {.out = &params, .err = &turn->err};
  const char *name = is_sampling ? "prompt" : "message";
  pd_json text = pd_json_member(arguments, name);
  if (text.kind != PD_JSON_STRING) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "%s is missing", name);
  if (!(turn->client & (is_sampling ? PD_MCP_SAMPLES : PD_MCP_ELICITS)))
    return pd_mcp_refuse_client(turn, is_sampling ? "sampling" : "elicitation");
  pd_json answer = pd_mcp_answer(turn, "it");
  if (answer.kind == PD_JSON_OBJECT)
    return fixture_say(turn, "%s: %.*s", is_sampling ? "LLM response" : "User response", (int)answer.raw.size,
                       (const char *)answer.raw.data);
  pd_json_open(&w, '{');
  if (is_sampling) {
    pd_json_key(&w, "messages");
    pd_json_open(&w, '[');
    pd_json_open(&w, '{');
    pd_json_put_text(&w, "role", "user");
    pd_json_key(&w, "content");
    pd_json_open(&w, '{');
    pd_json_put_text(&w, "type", "text");
    pd_json_key(&w, "text");
    pd_json_value(&w, text);
    pd_json_close(&w, '}');
    pd_json_close(&w, '}');
    pd_json_close(&w, ']');
    pd_json_put_number(&w, "maxTokens", 100);
  } else {
    pd_json_key(&w, "message");
    pd_json_value(&w, text);
    pd_json_key(&w, "requestedSchema");
    pd_json_raw(&w, pd_text("{\"type\":\"object\",\"properties\":{\"username\":{\"type\":\"string\",\"description\":\"User's response\"},"
                            "\"email\":{\"type\":\"string\",\"description\":\"User's email address\"}},\"required\":[\"username\","
                            "\"email\"]}"));
  }
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(pd_buf_byte(&params, 0, &turn->err));
  return pd_mcp_ask(turn, "it", is_sampling ? "sampling/createMessage" : "elicitation/create", (const char *)params.data);
}

pd_code fixture_ask_call(pd_mcp_turn *turn, const char *name, pd_json arguments)
{
  if (strcmp(name, "test_sampling") == 0) return call_with_text(turn, arguments, true);
  if (strcmp(name, "test_elicitation") == 0) return call_with_text(turn, arguments, false);
  if (strcmp(name, "test_input_required_result_multi_round") == 0) return call_rounds(turn);
  for (size_t i = 0; i < COUNT_OF(table); i++)
    if (strcmp(table[i].tool, name) == 0) return call_asking(turn, &table[i]);
  return PD_NOT_FOUND;
}

pd_code fixture_ask_prompt(pd_mcp_turn *turn)
{
  pd_json answer = pd_mcp_answer(turn, "user_context");
  if (answer.kind != PD_JSON_OBJECT)
    return pd_mcp_ask(turn, "user_context", "elicitation/create",
                      FORM("What context should the prompt use?", "\"context\":{\"type\":\"string\"}", "\"context\""));
  pd_json_raw(&turn->w, pd_text("\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"Thank you.\"}}]"));
  return turn->w.code;
}
