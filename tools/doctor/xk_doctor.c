/* xk_doctor.c - `xk doctor`: prints the capabilities of this machine, and how to enable the rest. Changes nothing. */
#include <stdio.h>

#include "tools/doctor/doctor.h"
#include "tools/host/host_options.h"
#include "tools/json.h"
#include "tools/machine.h"
#include "tools/xk/xk.h"

struct doctor_options {
	const char *json;
};

static const struct options_option doctor_options[] = {
	OPTION(TEXT, struct doctor_options, json, "json", "FILE", "JSON to FILE; - is standard output"),
	{ .name = NULL },
};

static const struct options_program doctor_program = {
	.name = "xk doctor",
	.usage = "[OPTION]...",
	.about = "Prints what this machine can do: which links work, which of them let a driver sleep\n"
		 "(--driver interrupt), what disturbs measurements, and the command for anything missing.\n"
		 "Everything that can be tried without harm is tried; nothing is changed.",
	.footer = "Exit status: 0 the link virtio, the default, works; 1 it does not;\n"
		  "2 misuse.",
	.options = doctor_options,
};

static void
doctor_print_group(const struct doctor_report *report, enum doctor_group group, const char *heading)
{
	static const char *const states[] = {
		[DOCTOR_GOOD] = "yes", [DOCTOR_IMPROVABLE] = "~", [DOCTOR_MISSING] = "NO"
	};

	printf("%s\n", heading);
	for (unsigned i = 0; i < report->count; i++) {
		const struct doctor_finding *finding = &report->findings[i];

		if (finding->group != group)
			continue;
		printf("  %-13s %-4s %-6s %s\n", finding->name, states[finding->state],
		       group != DOCTOR_LINK ? ""
		       : finding->sleeps    ? "yes"
					    : "no",
		       finding->text);
		if (finding->command[0] != '\0')
			printf("  %-13s %-4s %-6s -> %s\n", "", "", "", finding->command);
	}
	putchar('\n');
}

static void
doctor_json_group(struct json *json, const struct doctor_report *report, enum doctor_group group, const char *key)
{
	static const char *const states[] = {
		[DOCTOR_GOOD] = "good", [DOCTOR_IMPROVABLE] = "could_be_better", [DOCTOR_MISSING] = "missing"
	};

	json_object(json, key);
	for (unsigned i = 0; i < report->count; i++) {
		const struct doctor_finding *finding = &report->findings[i];

		if (finding->group != group)
			continue;
		json_object(json, finding->name);
		json_string(json, "state", states[finding->state]);
		if (group == DOCTOR_LINK)
			json_bool(json, "sleeps", finding->sleeps);
		json_string(json, "text", finding->text);
		json_string(json, "command", finding->command[0] == '\0' ? NULL : finding->command);
		json_close(json);
	}
	json_close(json);
}

static int
doctor_json(const struct doctor_report *report, const char *file, FILE *out)
{
	struct machine machine;
	struct json json;

	machine_describe(&machine);
	json_begin(&json, out);
	json_object(&json, NULL);
	json_string(&json, "program", doctor_program.name);
	machine_json(&machine, &json, "machine");
	json_bool(&json, "works", report->works);
	doctor_json_group(&json, report, DOCTOR_LINK, "links");
	doctor_json_group(&json, report, DOCTOR_MACHINE, "checks");
	doctor_json_group(&json, report, DOCTOR_TOOL, "programs");
	return host_end_json(doctor_program.name, file, &json);
}

int
xk_doctor_main(int argc, char **argv)
{
	struct doctor_options options = { .json = NULL };
	struct options_texts operands;
	struct doctor_facts facts;
	struct doctor_report report;
	int status = options_parse(&doctor_program, argc, argv, &options, &operands);
	FILE *out;

	if (status != OPTIONS_GO)
		return status;
	if (host_open_json(doctor_program.name, options.json, &out) != 0)
		return OPTIONS_FAILURE;
	doctor_probe(&facts);
	doctor_assess(&facts, &report);
	if (out != stdout) {
		doctor_print_group(&report, DOCTOR_LINK,
				   "link            works sleeps  (--link LINK; sleeps: --driver interrupt)");
		doctor_print_group(&report, DOCTOR_MACHINE, "machine         good");
		doctor_print_group(&report, DOCTOR_TOOL, "program         there        purpose");
		if (report.works)
			printf("virtio, the default link, works: ./run demo measures with it.\n");
		else
			printf("virtio, the default link, does not work. The simulator does:\n"
			       "build/xk run graphs/net/pair-ethernet10.dot --link sim\n");
	}
	status = report.works ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
	if (out != NULL && doctor_json(&report, options.json, out) != 0)
		status = OPTIONS_FAILURE;
	host_close_json(out);
	return status;
}
