/* test_http_file.c - the folder of http: its regular files, and nothing else. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/protocols/http_rig.h"

struct folder {
	char path[64];
	struct rig *r;
};

static void
put(const char *path, const char *text, size_t times)
{
	FILE *out = fopen(path, "w");

	REQUIRE(out != NULL);
	while (times-- > 0)
		fputs(text, out);
	REQUIRE(fclose(out) == 0);
}

/* Makes a folder with files, links and other things, and a rig that serves it. */
static void
folder_open(struct folder *f)
{
	char settings[128];

	snprintf(f->path, sizeof(f->path), "/tmp/xk-http-XXXXXX");
	REQUIRE(mkdtemp(f->path) != NULL && chdir(f->path) == 0);
	REQUIRE(mkdir("inside", 0700) == 0 && mkdir("folder", 0700) == 0 && mkdir("folder/inner", 0700) == 0);
	put("secret.txt", "secret", 1);
	put("folder/a.html", "<p>a</p>", 1);
	put("folder/inner/b.bin", "b", 1);
	put("folder/empty.txt", "", 1);
	put("folder/large.txt", "0123456789", 20001);
	put("folder/.hidden", "hidden", 1);
	REQUIRE(symlink("../secret.txt", "folder/link.txt") == 0);
	REQUIRE(symlink("a.html", "folder/inside.html") == 0);
	REQUIRE(symlink("..", "folder/up") == 0);
	REQUIRE(mkfifo("folder/fifo", 0600) == 0);
	snprintf(settings, sizeof(settings), "http.folder=%.50s/folder; http.file=200010;", f->path);
	f->r = http_rig(settings);
}

static void
folder_close(struct folder *f)
{
	char command[128];

	http_rig_free(f->r);
	REQUIRE(chdir("/") == 0);
	snprintf(command, sizeof(command), "rm -r %s", f->path);
	CHECK_EQ(system(command), 0);
}

#define FOLDER_TEST(name) TEST_IN(name, struct folder, f, folder_open(f), folder_close)

FOLDER_TEST(http_serves_regular_files)
{
	const char *text;

	say(f->r, GET("/a.html"));
	text = heard(f->r);
	CHECK_TEXT(text, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 8\r\n",
		   "\r\n\r\n<p>a</p>");
	CHECK(strstr(text, "\r\nContent-Security-Policy: default-src 'self'; frame-ancestors 'none'\r\n") != NULL);
	say(f->r, GET("/inner/b.bin?x"));
	CHECK_TEXT(heard(f->r), "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n", "\r\n\r\nb");
	say(f->r, GET("/%65mpty.txt"));
	CHECK_TEXT(heard(f->r), "HTTP/1.1 200 OK\r\nContent-Type: text/plain", "\r\n\r\n");
	say(f->r, GET("/"));
	CHECK_TEXT(heard(f->r), "HTTP/1.1 200 OK\r\n", "hello");
	rig_expect_counts(f->r, "responses=4 not_found=0");
}

FOLDER_TEST(http_serves_nothing_but_regular_files_of_the_folder)
{
	static const char *const targets[] = { "/link.txt",         "/inside.html", "/up/secret.txt",
					       "/up/folder/a.html", "/fifo",        "/inner",
					       "/inner/",           "/absent",      "/a.html/",
					       "/a.html/b",         "/tmp" };
	static const char *const paths[] = { "/../secret.txt", "/inner/../../secret.txt", "/.hidden",
					     "/./a.html",      "/%2e./secret.txt",        "//tmp" };
	char request[128];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(targets); i++) {
		snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n" HOST "\r\n", targets[i]);
		say(f->r, request);
		CHECK_TEXT(heard(f->r), "HTTP/1.1 404 ", ": not_found\n");
	}
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(paths); i++) {
		snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n" HOST "\r\n", paths[i]);
		say_anew(f->r, request);
		CHECK_TEXT(heard(f->r), "HTTP/1.1 400 ", ": bad_path\n");
	}
	CHECK_EQ(rig_counter(f->r, "not_found"), XK_ARRAY_LENGTH(targets));
	CHECK_EQ(rig_counter(f->r, "bad_path"), XK_ARRAY_LENGTH(paths));
}

FOLDER_TEST(http_sends_large_files_whole_and_refuses_larger_ones)
{
	const char *text;
	size_t len;

	say(f->r, GET("/large.txt"));
	text = heard_len(f->r, &len);
	CHECK_TEXT(text, "HTTP/1.1 200 OK\r\n", "6789");
	CHECK_EQ(strlen(strstr(text, "\r\n\r\n") + 4), 200010);
	put("folder/large.txt", "0123456789", 20002);
	say(f->r, GET("/large.txt"));
	CHECK_TEXT(heard(f->r), "HTTP/1.1 403 ", ": large_file\n");
	rig_expect_counts(f->r, "large_file=1 responses=2");
}

FOLDER_TEST(http_ends_the_connection_if_a_file_becomes_shorter)
{
	rig_fail_sending(f->r, -ENOBUFS);
	say(f->r, GET("/large.txt"));
	put("folder/large.txt", "0123456789", 1);
	rig_fail_sending(f->r, 0);
	rig_advance_ms(f->r, 20);
	rig_expect_nothing_sent(f->r);
	rig_expect_counts(f->r, "changed=1 cut=1 responses=0");
	CHECK_EQ(rig_wire_session_count(f->r), 0);
}

TEST(http_does_not_start_without_its_folder)
{
	CHECK_EQ(rig_refusal("wire:; http: wire; http.folder=/nowhere;"), -ENOENT);
	CHECK_EQ(rig_refusal("wire:; http: wire; http.folder=/etc/passwd;"), -ENOTDIR);
}
