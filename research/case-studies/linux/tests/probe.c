/* The first program of a machine: prints what both features give, line by line, and switches the machine off. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

struct summary {
	int32_t pid, ppid;
	uint32_t uid, threads;
	uint64_t rss;
	char comm[16];
	uint64_t reserved;
};

static int told[2];

static long ask(int pid, void *out, size_t size)
{
	return syscall(451, pid, out, size) ? -errno : 0;
}

static void show(const char *name, int pid)
{
	struct summary s;

	memset(&s, 0xaa, sizeof(s));
	long code = ask(pid, &s, sizeof(s));
	int zeros = 1, end = strnlen(s.comm, sizeof(s.comm));
	for (int i = end; i < (int)sizeof(s.comm); i++)
		zeros &= !s.comm[i];
	/* One line each. */
	for (int i = 0; i < end; i++)
		if (s.comm[i] == '\n')
			s.comm[i] = '|';
	printf("probe %s code=%ld pid=%d ppid=%d uid=%u threads=%u rss=%llu comm=%.16s zeros=%d\n", name, code, s.pid, s.ppid,
	       s.uid, s.threads, (unsigned long long)s.rss, end ? s.comm : "", zeros && !s.reserved);
}

static void show_file(const char *name, int pid, const char *file)
{
	char path[64], line[256];
	struct stat found;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	FILE *in = fopen(path, "r");
	if (!in) {
		printf("file %s errno=%d\n", name, errno);
		return;
	}
	fstat(fileno(in), &found);
	printf("file %s mode=%o\n", name, found.st_mode & 07777);
	while (fgets(line, sizeof(line), in))
		printf("line %s %s", name, line);
	fclose(in);
}

static void *wait_for_the_end(void *none)
{
	pause();
	return none;
}

static void *tell_and_wait(void *none)
{
	pid_t both[2] = { getpid(), syscall(SYS_gettid) };
	if (write(told[1], both, sizeof(both)) != sizeof(both))
		exit(1);
	return wait_for_the_end(none);
}

/* A process with a name, a user, threads and memory of its own. */
static int child(void *none)
{
	pthread_t thread;
	size_t size = 8 << 20;

	prctl(PR_SET_NAME, "a\nchild");
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(memory, 1, size);
	if (setuid(1234))
		exit(1);
	pthread_create(&thread, NULL, wait_for_the_end, none);
	pthread_create(&thread, NULL, tell_and_wait, none);
	for (;;)
		pause();
}

/* The first process of a namespace: sees itself as 1, and its parent not at all. */
static int inner(void *none)
{
	show("inner-self", 0);
	show("inner-first", 1);
	fflush(stdout);
	return 0;
}

int main(void)
{
	static char stack[1 << 16];
	struct utsname name;
	struct summary s;
	unsigned char large[sizeof(s) + 8];
	pid_t both[2];
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	mkdir("/proc", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	uname(&name);
	printf("probe release=%s\n", name.release);

	show("self", 0);
	show("first", 1);
	show("kernel-thread", 2);
	show("none", 30000);
	show("negative", -1);
	printf("probe small code=%ld\n", ask(0, &s, sizeof(s) - 1));
	printf("probe no-place code=%ld\n", ask(0, NULL, sizeof(s)));
	memset(large, 0x55, sizeof(large));
	long code = ask(0, large, sizeof(large));
	int kept = 1;
	for (size_t i = sizeof(s); i < sizeof(large); i++)
		kept &= large[i] == 0x55;
	printf("probe large code=%ld kept=%d\n", code, kept);

	if (pipe(told))
		return 1;
	pid_t pid = fork();
	if (!pid)
		child(NULL);
	if (read(told[0], both, sizeof(both)) != sizeof(both))
		return 1;
	printf("probe expected pid=%d thread=%d\n", both[0], both[1]);
	show("child", both[0]);
	show("thread", both[1]);
	show_file("child", both[0], "pid_summary");
	show_file("status", both[0], "status");
	show_file("first", 1, "pid_summary");
	show_file("kernel-thread", 2, "pid_summary");
	fflush(stdout);
	if (!fork()) {
		if (setuid(4321))
			_exit(1);
		show("stranger", both[0]);
		show_file("stranger", both[0], "pid_summary");
		fflush(stdout);
		_exit(0);
	}
	wait(&status);
	clone(inner, stack + sizeof(stack), CLONE_NEWPID | SIGCHLD, NULL);
	wait(&status);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	show("gone", both[0]);
	printf("probe end\n");
	fflush(stdout);
	sleep(1);
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}
